// The map enlarged, moved and labelled, and areas chosen on it by drawing a line around them.
"use strict";
window.mapView = (state, { several, taken }) => {
  const SVG = "http://www.w3.org/2000/svg", MOST = 40, STEP = 1.6, LABEL = 12;
  const $ = (id) => document.getElementById(id);
  const place = $("picture"), tools = $("map-tools");
  // How much larger than the whole, and the point in its middle, as parts of the width and the height.
  const whole = { times: 1, x: 0.5, y: 0.5 };
  let now = { ...whole }, svg = null, size = [1, 1], names = null, level = null, line = null, drag = null;

  function made(tag, properties = {}, ...children) {
    const one = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(properties)) one.setAttribute(name, value);
    one.append(...children);
    return one;
  }
  const within = (value, least, most) => Math.min(most, Math.max(least, value));
  const areas = () => [...svg.querySelectorAll(".mark-shape>path")].filter((one) => Number.isInteger(one.__data__?.datum?.row) && one.getAttribute("fill") !== "url(#hatch)");

  function apply() {
    const half = 0.5 / now.times;
    Object.assign(now, { x: within(now.x, half, 1 - half), y: within(now.y, half, 1 - half) });
    svg.setAttribute("viewBox", [(now.x - half) * size[0], (now.y - half) * size[1], size[0] / now.times, size[1] / now.times].join(" "));
    svg.querySelector("pattern")?.setAttribute("patternTransform", `scale(${1 / now.times})`);
    $("zoom-out").disabled = $("zoom-all").disabled = now.times === 1;
    $("zoom-in").disabled = now.times >= MOST;
    place.classList.toggle("zoomed", now.times > 1);
    label();
  }
  // Names where there is room for them; larger areas first, none over another.
  function label() {
    svg.querySelector(".labels")?.remove();
    if (!$("labels").checked || names === null) return;
    const letter = LABEL / now.times, [left, top, width, height] = svg.getAttribute("viewBox").split(" ").map(Number), taken = [];
    const found = areas().map((one) => ({ box: one.getBBox(), row: one.__data__.datum.row })).sort((a, b) => b.box.width * b.box.height - a.box.width * a.box.height || a.row - b.row);
    const group = made("g", { class: "labels", "font-size": letter, "text-anchor": "middle", "stroke-width": letter / 4, "aria-hidden": "true" });
    for (const { box, row } of found) {
      const words = names(row), wide = words.length * letter * 0.56, x = box.x + box.width / 2, y = box.y + box.height / 2;
      if (wide > box.width * 1.05 || letter > box.height || x < left || x > left + width || y < top || y > top + height) continue;
      const mine = [x - wide / 2, x + wide / 2, y - letter, y + letter / 2];
      if (taken.some((one) => one[0] < mine[1] && mine[0] < one[1] && one[2] < mine[3] && mine[2] < one[3])) continue;
      taken.push(mine);
      group.append(made("text", { x, y: y + letter / 3 }, words));
    }
    svg.append(group);
  }
  function enlarge(factor, at = null) {
    const times = within(now.times * factor, 1, MOST);
    // What is under the pointer stays there.
    if (at) Object.assign(now, { x: at[0] + (now.x - at[0]) * (now.times / times), y: at[1] + (now.y - at[1]) * (now.times / times) });
    now.times = times;
    apply();
  }
  function pointOf(event) {
    const found = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return [found.x, found.y];
  }
  const partOf = (event) => pointOf(event).map((one, i) => one / size[i]);
  function inside([x, y], ring) {
    let found = false;
    for (let i = 0, j = ring.length - 1; i < ring.length; j = i++) {
      const [[a, b], [c, d]] = [ring[i], ring[j]];
      if (b > y !== d > y && x < ((c - a) * (y - b)) / (d - b) + a) found = !found;
    }
    return found;
  }
  // A point that is in the area: the middle of its box, or else the middle of the longest stretch in it at that height.
  function middleOf(one) {
    const box = one.getBBox(), y = box.y + box.height / 2, steps = 24;
    const isIn = (x) => one.isPointInFill(new DOMPoint(x, y));
    if (isIn(box.x + box.width / 2)) return [box.x + box.width / 2, y];
    let best = [0, box.x + box.width / 2], run = 0;
    for (let i = 0; i <= steps; i++) {
      const x = box.x + (box.width * i) / steps;
      run = isIn(x) ? run + 1 : 0;
      if (run > best[0]) best = [run, x - ((run - 1) * box.width) / steps / 2];
    }
    return [best[1], y];
  }

  place.addEventListener("wheel", (event) => {
    if (svg === null || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    enlarge(event.deltaY < 0 ? STEP : 1 / STEP, partOf(event));
  }, { passive: false });
  place.addEventListener("pointerdown", (event) => {
    if (svg === null || event.button !== 0 || !svg.contains(event.target)) return;
    const drawing = several();
    if (!drawing && now.times === 1) return;
    drag = { drawing, from: pointOf(event), ring: [pointOf(event)], moved: false, pointer: event.pointerId };
  });
  addEventListener("pointermove", (event) => {
    if (drag === null) return;
    const [x, y] = pointOf(event);
    if (!drag.moved && Math.hypot(x - drag.from[0], y - drag.from[1]) * now.times < 5) return;
    if (!drag.moved) place.setPointerCapture(drag.pointer);
    drag.moved = true;
    if (drag.drawing) {
      drag.ring.push([x, y]);
      line?.remove();
      line = made("polygon", { class: "lasso", points: drag.ring.map((one) => one.join(",")).join(" "), "stroke-width": 2 / now.times });
      svg.append(line);
    } else {
      Object.assign(now, { x: now.x - (x - drag.from[0]) / size[0], y: now.y - (y - drag.from[1]) / size[1] });
      apply();
    }
  });
  addEventListener("pointerup", () => {
    if (drag?.moved) {
      // What follows is the click of a drag.
      place.addEventListener("click", (event) => { event.stopPropagation(); }, { capture: true, once: true });
      setTimeout(() => place.click(), 0);
    }
    if (drag?.moved && drag.drawing) {
      const ring = drag.ring;
      taken(areas().filter((one) => inside(middleOf(one), ring)).map((one) => one.__data__.datum.row));
    }
    line?.remove();
    [line, drag] = [null, null];
  });
  $("zoom-in").addEventListener("click", () => enlarge(STEP));
  $("zoom-out").addEventListener("click", () => enlarge(1 / STEP));
  $("zoom-all").addEventListener("click", () => { now = { ...whole }; apply(); });
  $("labels").addEventListener("change", apply);
  const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  tools.addEventListener("keydown", (event) => {
    if (MOVES[event.key] === undefined || event.target.tagName !== "BUTTON") return;
    event.preventDefault();
    Object.assign(now, { x: now.x + (0.2 * MOVES[event.key][0]) / now.times, y: now.y + (0.2 * MOVES[event.key][1]) / now.times });
    apply();
  });

  // A map was drawn: `of` says which, so that another one begins as a whole; null where there is none.
  return (drawn, of, nameOf) => {
    svg = drawn;
    tools.hidden = svg === null;
    place.classList.toggle("zoomed", false);
    if (svg === null) return;
    names = nameOf;
    size = ["width", "height"].map((side) => Number(svg.getAttribute(side)));
    if (of !== level) [now, level] = [{ ...whole }, of];
    apply();
  };
};
