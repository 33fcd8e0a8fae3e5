// Mark what differs from the preset, say while typing what the run would need, keep what was typed over a change of preset.

const form = document.getElementById("run-form");
const plan = document.getElementById("plan");
let timer = null;

const valueOf = (input) => (input.type === "checkbox" ? String(input.checked) : input.value);

form.addEventListener("input", (event) => {
  const field = event.target.closest("[data-preset]");
  if (field) field.classList.toggle("changed", valueOf(event.target) !== field.dataset.preset);
  clearTimeout(timer);
  timer = setTimeout(askForPlan, 250);
});

async function askForPlan() {
  const answer = await fetch(form.dataset.plan, { method: "POST", body: new FormData(form) });
  if (answer.ok) plan.innerHTML = await answer.text();
}

for (const link of form.querySelectorAll(".preset")) {
  link.addEventListener("click", () => {
    const url = new URL(link.href);
    for (const name of ["name", "tags", "notes", "priority"]) {
      if (form.elements[name].value) url.searchParams.set(name, form.elements[name].value);
    }
    link.href = url;
  });
}
form.querySelector('[aria-invalid="true"]')?.focus();
