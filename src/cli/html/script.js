"use strict";
// Zoom, and moving from turn to turn. All words come from the page itself, and go back into it as text.
(function () {
  const drawing = document.getElementById("lanes");
  const scroll = document.getElementById("scroll");
  const picked = document.getElementById("picked");
  const all = document.getElementById("all-turns");
  if (!drawing || !scroll) return;
  document.getElementById("tools").hidden = false;
  const turns = Array.from(drawing.querySelectorAll("a.turn"));
  const byId = new Map(turns.map((turn) => [turn.dataset.turn, turn]));
  turns.sort((one, other) => Number(one.dataset.turn) - Number(other.dataset.turn));
  const zoomMax = 256;
  let zoom = 1;
  let current = null;

  function zoomTo(wanted, centre) {
    const next = Math.min(zoomMax, Math.max(1, wanted));
    const at = centre === undefined ? scroll.clientWidth / 2 : centre;
    const part = (scroll.scrollLeft + at) / drawing.getBoundingClientRect().width;
    zoom = next;
    drawing.style.width = zoom * 100 + "%";
    scroll.scrollLeft = part * drawing.getBoundingClientRect().width - at;
  }

  function show(turn) {
    const row = document.getElementById("turn-" + turn.dataset.turn);
    if (!row) return;
    const names = Array.from(row.closest("table").querySelectorAll("th"), (head) => head.textContent);
    const values = Array.from(row.cells, (cell) => cell.textContent);
    picked.replaceChildren();
    const title = document.createElement("b");
    title.textContent = values[2] + " " + values[3];
    picked.append(title);
    names.forEach(function (name, place) {
      if (place === 2 || place === 3 || !values[place]) return;
      const label = document.createElement("span");
      const value = document.createElement("i");
      label.textContent = name;
      value.textContent = values[place];
      picked.append(label, value);
    });
    picked.hidden = false;
  }

  function pick(turn) {
    if (!turn) return;
    document.querySelectorAll(".picked").forEach((one) => one !== picked && one.classList.remove("picked"));
    current = turn;
    turn.classList.add("picked");
    document.querySelectorAll('tr[data-turn="' + turn.dataset.turn + '"]').forEach((row) => row.classList.add("picked"));
    const place = turn.firstElementChild.getBoundingClientRect();
    const view = scroll.getBoundingClientRect();
    if (place.left < view.left + 20 || place.right > view.right - 20) {
      scroll.scrollLeft += place.left - view.left - view.width / 2;
    }
    show(turn);
  }

  function step(key) {
    if (!current) return drawing.querySelector("a.turn.chain") || turns[0];
    const place = turns.indexOf(current);
    if (key === "ArrowLeft") return turns[place - 1];
    if (key === "ArrowRight") return turns[place + 1];
    if (key === "ArrowUp") return byId.get(current.dataset.cause);
    const effects = turns.filter((turn) => turn.dataset.cause === current.dataset.turn);
    return effects.find((turn) => turn.classList.contains("chain")) || effects[0];
  }

  drawing.addEventListener("click", function (event) {
    const turn = event.target.closest("a.turn");
    if (!turn) return;
    event.preventDefault();
    scroll.focus({ preventScroll: true });
    pick(turn);
  });
  scroll.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "=") zoomTo(zoom * 2);
    else if (event.key === "-") zoomTo(zoom / 2);
    else if (event.key === "0") zoomTo(1);
    else if (event.key.startsWith("Arrow")) pick(step(event.key));
    else return;
    event.preventDefault();
  });
  scroll.addEventListener("wheel", function (event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoomTo(zoom * (event.deltaY < 0 ? 1.25 : 0.8), event.clientX - scroll.getBoundingClientRect().left);
  }, { passive: false });
  document.querySelectorAll("button[data-zoom]").forEach(function (button) {
    const factor = Number(button.dataset.zoom);
    button.addEventListener("click", () => zoomTo(factor === 0 ? 1 : zoom * factor));
  });
  document.getElementById("causes").addEventListener("change", function (event) {
    drawing.classList.toggle("no-causes", !event.target.checked);
  });
  document.querySelectorAll("#chain tbody tr").forEach(function (row) {
    row.addEventListener("mouseenter", () => pick(byId.get(row.dataset.turn)));
  });
  // A link to a row opens the list that the row is in.
  window.addEventListener("hashchange", openList);
  function openList() {
    const row = /^#turn-\d+$/.test(location.hash) && document.getElementById(location.hash.slice(1));
    if (!row) return;
    all.open = true;
    row.scrollIntoView({ block: "center" });
  }
  openList();
  document.documentElement.dataset.ready = String(turns.length);
})();
