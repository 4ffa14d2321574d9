// The theme's folding arrows have no text: give each the name of the pages that it unfolds.
document.addEventListener("DOMContentLoaded", () => {
  for (const arrow of document.querySelectorAll("nav summary")) {
    const page = arrow.closest("li")?.querySelector(":scope > a");
    arrow.setAttribute("aria-label", `Pages under ${page ? page.textContent.trim() : "this one"}`);
  }
});
