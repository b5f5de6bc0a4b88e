"use strict";
const root = document.documentElement, themes = ["auto", "light", "dark"], toggle = document.getElementById("theme");
let theme = "auto";
try { theme = localStorage.getItem("theme") ?? theme; } catch { /* none */ }
function paint() {
  root.style.colorScheme = theme === "auto" ? "light dark" : theme;
  toggle.textContent = "\u25d0 " + theme;
  toggle.ariaLabel = "colours: " + theme;
  try { localStorage.setItem("theme", theme); } catch { /* private */ }
}
toggle.addEventListener("click", () => {
  theme = themes[(themes.indexOf(theme) + 1) % 3];
  paint();
});
paint();

const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
const arrays = {};
function array(id) {
  if (!arrays[id]) {
    const a = arrays[id] = JSON.parse(document.getElementById(id).textContent);
    [a.low, a.high, a.unit] = a.ends;
    Object.assign(a, { values: bytes(a.data), colours: bytes(a.map), draws: [], top: 1 });
    a.strides = a.shape.map((_, k) => a.shape.slice(k + 1).reduce((n, m) => n * m, 1));
  }
  return arrays[id];
}
/* 0 of a scale with both signs is the middle of the colours. */
const colour = (a, v) => a.low < 0 && a.high > 0
  ? Math.round(Math.min(255, Math.max(0, 127.5 + (v - 127.5) / a.top))) : Math.min(255, Math.round(a.high > 0 ? v / a.top : 255 - (255 - v) / a.top));
const short = v => (+v.toPrecision(3)).toString().replace("-", "\u2212");
for (const box of document.querySelectorAll(".slice")) {
  const a = array(box.dataset.array), v = JSON.parse(box.dataset.view);
  const canvas = box.querySelector("canvas"), out = box.querySelector("output");
  const slider = box.querySelector("input"), play = box.querySelector(".play");
  const nx = a.shape[v.right], ny = a.shape[v.up], pen = canvas.getContext("2d");
  [canvas.width, canvas.height] = [nx, ny];
  const index = (i, j) => (slider ? slider.value * a.strides[v.across] : 0) + i * a.strides[v.right] + j * a.strides[v.up];
  const at = (axis, i) => {
    const [name, first, step, unit] = v.axes[axis];
    return `${name} = ${short(first + i * step)} ${unit}`;
  };
  function draw() {
    const image = pen.createImageData(nx, ny);
    for (let j = 0; j < ny; j++)
      for (let i = 0; i < nx; i++) {
        const from = 4 * Math.max(0, colour(a, a.values[index(i, j)]));
        image.data.set(a.colours.subarray(from, from + 4), 4 * ((ny - 1 - j) * nx + i));
      }
    pen.putImageData(image, 0, 0);
    out.textContent = slider ? at(v.across, +slider.value) : "";
    if (slider) slider.setAttribute("aria-valuetext", out.textContent);
  }
  canvas.addEventListener("pointermove", e => {
    const r = canvas.getBoundingClientRect();
    const i = Math.min(nx - 1, Math.max(0, Math.floor((e.clientX - r.left) / r.width * nx)));
    const j = Math.min(ny - 1, Math.max(0, ny - 1 - Math.floor((e.clientY - r.top) / r.height * ny)));
    const value = a.low + a.values[index(i, j)] / 255 * (a.high - a.low);
    out.textContent = `${short(value)} ${a.unit} at ${at(v.right, i)}, ${at(v.up, j)}`;
  });
  canvas.addEventListener("pointerleave", draw);
  a.draws.push(draw);
  draw();
  if (!slider) continue;
  let timer = 0;
  function run(on) {
    clearInterval(timer);
    timer = on ? setInterval(() => { slider.value = (+slider.value + 1) % v.count; draw(); }, 80) : 0;
    play.textContent = on ? "\u23f8" : "\u25b6";
    play.setAttribute("aria-label", on ? "pause" : "play");
  }
  play.addEventListener("click", () => run(!timer));
  slider.addEventListener("input", draw);
  slider.addEventListener("pointerdown", () => run(false));
  slider.addEventListener("keydown", e => {
    if (e.key === " ") { e.preventDefault(); run(!timer); } else if (e.key.startsWith("Arrow")) run(false);
  });
}
for (const gain of document.querySelectorAll(".gain")) {
  const a = array(gain.dataset.array), top = gain.closest(".scale").querySelector(".top");
  gain.addEventListener("input", () => {
    a.top = gain.value / 100;
    gain.nextElementSibling.textContent = gain.value + " %";
    top.textContent = `${short(a.high > 0 ? a.high * a.top : a.high)} ${a.unit}`;
    a.draws.forEach(draw => draw());
  });
}
