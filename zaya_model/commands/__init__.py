"""The verbs of the command line, one file each; torch is loaded by the verb that needs it, when it runs."""
