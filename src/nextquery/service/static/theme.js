// Light, dark, or as the system says. Remembered in this browser.

const CHOICES = ["auto", "light", "dark"];
const NAME = "nextquery-theme";

export function startTheme(button) {
  const show = (choice) => {
    document.documentElement.dataset.theme = choice;
    button.textContent = `Theme: ${choice}`;
  };
  let choice = localStorage.getItem(NAME);
  if (!CHOICES.includes(choice)) choice = "auto";
  show(choice);
  button.addEventListener("click", () => {
    choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
    localStorage.setItem(NAME, choice);
    show(choice);
  });
}
