"use strict";

// --- Data ------------------------------------------------------------------------

const data = JSON.parse(document.getElementById("data").textContent);
const { height, width } = data;
const numPixels = height * width;
const numClasses = data.classes.length;
const isBinary = numClasses === 2;
// Several classes on a background are outlined over the image; street scenes are painted.
const isOutlined = !isBinary && data.classes[0] === "background";
const latentDim = data.slices[0].mean.length;

function bytes(base64) {
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

const depth = data.latentKernel.length / latentDim;

function unpack(slice) {
  const raw = bytes(slice.features);
  const values = new Float32Array(numPixels * depth);
  for (let i = 0; i < values.length; i++) {
    const c = i % depth;
    values[i] = slice.low[c] + slice.step[c] * (raw[2 * i] + 256 * raw[2 * i + 1]);
  }
  return values;
}

// The slices of a lesion, or a single image. The point is the same for all of them, in
// standard deviations from each one's own prior.
const views = data.slices.map((slice) => ({
  number: slice.number,
  features: unpack(slice),
  picture: bytes(slice.image),
  mean: slice.mean,
  stddev: slice.stddev,
}));
let view = views[data.slice];
const layers = data.layers.map((layer) => ({
  kernel: Float64Array.from(layer.kernel), // [in, out]
  bias: Float64Array.from(layer.bias),
}));
// A name is "grader 1", or "mode 4: car 2, 5.9 %".
const graders = data.graders.map((g) => ({
  name: g.name,
  kind: g.name.split(" ")[0],
  number: parseInt(g.name.split(" ")[1], 10),
  latent: g.latent,
  labels: bytes(g.labels),
}));

// --- f_comb ----------------------------------------------------------------------

// Returns probabilities [h, w, K] of every `stride`-th pixel of a slice for the latent z.
function decode(z, stride = 1, { features } = view) {
  const shift = new Float64Array(depth);
  for (let l = 0; l < latentDim; l++) {
    for (let c = 0; c < depth; c++) shift[c] += data.latentKernel[l * depth + c] * z[l];
  }
  const outline = data.outlineStddev * z[latentDim - 1];
  const rows = Math.ceil(height / stride);
  const cols = Math.ceil(width / stride);
  const out = new Float32Array(rows * cols * numClasses);
  const first = new Float64Array(depth);
  const buffers = layers.map((layer) => new Float64Array(layer.bias.length));
  let o = 0;
  for (let y = 0; y < height; y += stride) {
    for (let x = 0; x < width; x += stride) {
      const base = (y * width + x) * depth;
      for (let c = 0; c < depth; c++) {
        const v = features[base + c] + shift[c];
        first[c] = v > 0 ? v : 0;
      }
      let input = first;
      for (let i = 0; i < layers.length; i++) {
        const { kernel, bias } = layers[i];
        const result = buffers[i];
        const n = bias.length;
        result.set(bias);
        for (let c = 0; c < input.length; c++) {
          const v = input[c];
          if (v === 0) continue;
          const row = c * n;
          for (let d = 0; d < n; d++) result[d] += v * kernel[row + d];
        }
        if (i + 1 < layers.length) {
          for (let d = 0; d < n; d++) if (result[d] < 0) result[d] = 0;
        }
        input = result;
      }
      for (let k = 1; k < numClasses; k++) input[k] += outline;
      for (let k = 0; k < numClasses; k++) input[k] *= data.outlineSharpness;
      softmax(input, out, o);
      o += numClasses;
    }
  }
  return out;
}

function softmax(logits, out, offset) {
  let most = -Infinity;
  for (let k = 0; k < numClasses; k++) if (logits[k] > most) most = logits[k];
  let sum = 0;
  for (let k = 0; k < numClasses; k++) sum += out[offset + k] = Math.exp(logits[k] - most);
  for (let k = 0; k < numClasses; k++) out[offset + k] /= sum;
}

function labelsOf(probabilities) {
  const labels = new Uint8Array(probabilities.length / numClasses);
  for (let i = 0; i < labels.length; i++) {
    let best = 0;
    for (let k = 1; k < numClasses; k++) {
      if (probabilities[i * numClasses + k] > probabilities[i * numClasses + best]) best = k;
    }
    labels[i] = best;
  }
  return labels;
}

function countForeground(labels) {
  let count = 0;
  for (const label of labels) if (label > 0) count++;
  return count;
}

function areaText(count) {
  if (data.pixelMm2 === null) return `${count} px`;
  const area = count * data.pixelMm2;
  return `${area.toFixed(area < 100 ? 1 : 0)} mm²`;
}

// --- State -----------------------------------------------------------------------

const RANGE = 4.5; // Standard deviations from the middle of the plane to its side.
const state = {
  u: new Float64Array(latentDim), // In standard deviations from the prior's mean.
  axes: data.axes.slice(),
  base: "image",
  probabilities: null,
  labels: null,
};

const toZ = (u, { mean, stddev } = view) => Array.from(u, (v, i) => mean[i] + stddev[i] * v);
const toU = (z, { mean, stddev } = view) => Float64Array.from(z, (v, i) => (v - mean[i]) / stddev[i]);
const sampleU = data.samples.map((z) => toU(z));
const graderU = graders.map((g) => toU(g.latent));

// --- Image -----------------------------------------------------------------------

const canvas = document.getElementById("image");
const scale = Math.max(1, Math.round(1024 / Math.max(height, width)));
canvas.width = width * scale;
canvas.height = height * scale;
const context = canvas.getContext("2d");

function raster(color) {
  const small = document.createElement("canvas");
  small.width = width;
  small.height = height;
  const target = small.getContext("2d");
  const pixels = target.createImageData(width, height);
  for (let i = 0; i < numPixels; i++) {
    const [r, g, b] = color(i);
    pixels.data.set([r, g, b, 255], 4 * i);
  }
  target.putImageData(pixels, 0, 0);
  return small;
}

const pictureColor = (i) =>
  data.channels === 3
    ? [view.picture[3 * i], view.picture[3 * i + 1], view.picture[3 * i + 2]]
    : [view.picture[i], view.picture[i], view.picture[i]];

// Black over purple and orange to pale yellow.
function heatColor(v) {
  const stops = [[0, 0, 4], [81, 18, 124], [183, 55, 121], [252, 137, 97], [252, 253, 191]];
  const at = Math.min(Math.max(v, 0), 1) * (stops.length - 1);
  const i = Math.min(Math.floor(at), stops.length - 2);
  return stops[i].map((low, c) => low + (at - i) * (stops[i + 1][c] - low));
}

const bases = { image: raster(pictureColor) };

// Lines where a field [h, w] crosses one half, through the pixels' centres.
function outline(value) {
  const path = new Path2D();
  const at = (y, x) => (y < 0 || x < 0 || y >= height || x >= width ? 0 : value(y * width + x));
  const cut = (a, b) => (0.5 - a) / (b - a);
  for (let y = -1; y < height; y++) {
    for (let x = -1; x < width; x++) {
      const corners = [at(y, x), at(y, x + 1), at(y + 1, x + 1), at(y + 1, x)];
      const code = corners.reduce((sum, v, i) => sum + (v > 0.5 ? 1 << i : 0), 0);
      if (code === 0 || code === 15) continue;
      const sides = [
        () => [x + cut(corners[0], corners[1]), y],
        () => [x + 1, y + cut(corners[1], corners[2])],
        () => [x + cut(corners[3], corners[2]), y + 1],
        () => [x, y + cut(corners[0], corners[3])],
      ];
      for (const [from, to] of CROSSINGS[code]) {
        const [x0, y0] = sides[from]();
        const [x1, y1] = sides[to]();
        path.moveTo((x0 + 0.5) * scale, (y0 + 0.5) * scale);
        path.lineTo((x1 + 0.5) * scale, (y1 + 0.5) * scale);
      }
    }
  }
  return path;
}

// The sides of a square that are joined, by which of its corners are inside.
const CROSSINGS = [
  [], [[3, 0]], [[0, 1]], [[3, 1]], [[1, 2]], [[3, 0], [1, 2]], [[0, 2]], [[3, 2]],
  [[2, 3]], [[0, 2]], [[0, 1], [2, 3]], [[1, 2]], [[1, 3]], [[0, 1]], [[0, 3]], [],
];

function stroke(path, color, lineWidth, alpha) {
  context.lineCap = "round";
  context.globalAlpha = alpha;
  context.strokeStyle = color;
  context.lineWidth = lineWidth;
  context.stroke(path);
  context.globalAlpha = 1;
}

const LINE = Math.max(canvas.width, canvas.height) / 200;
const checked = (id) => document.getElementById(id).checked;

function drawImage() {
  context.imageSmoothingEnabled = false;
  context.drawImage(bases[state.base] || bases.image, 0, 0, canvas.width, canvas.height);
  if (!isBinary && !isOutlined) {
    if (checked("show-current") && state.labels) drawClasses(state.labels, 0.6);
    return;
  }
  if (isOutlined) {
    drawOutlines();
    return;
  }
  if (checked("show-samples")) {
    for (const s of samples) if (s.path) stroke(s.path, "#56b4e9", LINE * 0.7, 0.8);
  }
  if (checked("show-graders")) {
    for (const g of graders) stroke(graderPath(g), "#f0e442", LINE * 0.8, 0.95);
  }
  if (checked("show-current") && state.probabilities) {
    const path = outline((i) => state.probabilities[2 * i + 1]);
    stroke(path, "#ffffff", LINE * 2.2, 0.55);
    stroke(path, "#d55e00", LINE * 1.3, 1);
  }
}

// The outline of each class but the background, in its colour.
function drawOutlines() {
  const strokeAll = (paths, lineWidth, alpha) =>
    paths.forEach((path, k) => stroke(path, `rgb(${data.colors[k + 1]})`, lineWidth, alpha));
  if (checked("show-samples")) {
    for (const s of samples) if (s.paths) strokeAll(s.paths, LINE * 0.5, 0.7);
  }
  if (checked("show-graders")) {
    for (const g of graders) {
      g.paths = g.paths || classPaths(g.labels);
      strokeAll(g.paths, LINE * 0.8, 0.9);
    }
  }
  if (checked("show-current") && state.labels) {
    const paths = classPaths(state.labels);
    for (const path of paths) stroke(path, "#ffffff", LINE * 2.2, 0.55);
    strokeAll(paths, LINE * 1.3, 1);
  }
}

function classPaths(labels) {
  return data.classes.slice(1).map((_, k) => outline((i) => (labels[i] === k + 1 ? 1 : 0)));
}

// "disc: 120 px, cup: 31 px", without the classes that do not occur.
function classAreas(labels) {
  const counts = new Array(numClasses).fill(0);
  for (const label of labels) if (label < numClasses) counts[label]++;
  const parts = data.classes
    .map((name, k) => (k && counts[k] ? `${name}: ${areaText(counts[k])}` : ""))
    .filter((text) => text);
  return parts.join(", ");
}

function graderPath(grader) {
  grader.path = grader.path || outline((i) => (grader.labels[i] === 1 ? 1 : 0));
  return grader.path;
}

function drawClasses(labels, alpha) {
  const colored = raster((i) => data.colors[labels[i]] || [0, 0, 0]);
  context.globalAlpha = alpha;
  context.drawImage(colored, 0, 0, canvas.width, canvas.height);
  context.globalAlpha = 1;
}

// --- Plane -----------------------------------------------------------------------

const plane = document.getElementById("plane");
const SIDE = 480;
const toSide = (u) => (SIDE * (u + RANGE)) / (2 * RANGE);
const clamp = (u) => Math.min(Math.max(u, -RANGE), RANGE);

function element(name, attributes, parent, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

const heat = element("image", { x: 0, y: 0, width: SIDE, height: SIDE, preserveAspectRatio: "none" }, plane);
element("line", { class: "axis", x1: 0, y1: SIDE / 2, x2: SIDE, y2: SIDE / 2 }, plane);
element("line", { class: "axis", x1: SIDE / 2, y1: 0, x2: SIDE / 2, y2: SIDE }, plane);
for (const sigma of [1, 2, 3, 4]) {
  const r = (SIDE * sigma) / (2 * RANGE);
  element("circle", { class: "circle", cx: SIDE / 2, cy: SIDE / 2, r }, plane);
  element("text", { class: "sigma", x: SIDE / 2 + 4, y: SIDE / 2 - r + 14 }, plane, `${sigma}σ`);
}
const axisLabels = [
  element("text", { class: "sigma", x: SIDE - 8, y: SIDE / 2 - 6, "text-anchor": "end" }, plane),
  element("text", { class: "sigma", x: SIDE / 2 - 6, y: 16, "text-anchor": "end" }, plane),
];
const cross = [0, 1].map(() => element("line", { class: "cross" }, plane));
const dots = element("g", {}, plane);
// A ring on top: what lies under it can be seen.
const point = element("g", { id: "point" }, plane);
element("circle", { class: "point-rim", r: 13 }, point);
element("circle", { class: "point", r: 13 }, point);

function drawDots() {
  dots.replaceChildren();
  const place = (u) => [toSide(clamp(u[state.axes[0]])), SIDE - toSide(clamp(u[state.axes[1]]))];
  sampleU.forEach((u, i) => {
    const [cx, cy] = place(u);
    const dot = element("circle", { class: "sample-dot", cx, cy, r: 4 }, dots);
    element("title", {}, dot, `sample ${i}`);
  });
  for (const { x, y, outside, names } of graderPlaces(place)) {
    const group = element("g", { class: `grader-dot${outside ? " outside" : ""}` }, dots);
    const half = 5 + 4 * names.length;
    const box = { x: x - half, y: y - 9, width: 2 * half, height: 18, rx: 9 };
    element("rect", box, group);
    element("text", { x, y }, group, names);
    element("title", {}, group, `${graders[0].kind} ${names}${outside ? ", outside of the plane" : ""}`);
  }
  axisLabels.forEach((label, i) => (label.textContent = `z${state.axes[i] + 1}`));
}

// Graders who say the same share a dot.
function graderPlaces(place) {
  const places = [];
  graderU.forEach((u, i) => {
    const [x, y] = place(u);
    const same = places.find((p) => Math.hypot(p.x - x, p.y - y) < 1);
    if (same) same.names += `,${graders[i].number}`;
    else {
      const outside = state.axes.some((a) => Math.abs(u[a]) > RANGE);
      places.push({ x, y, outside, names: `${graders[i].number}` });
    }
  });
  return places;
}

function drawPoint() {
  const x = toSide(clamp(state.u[state.axes[0]]));
  const y = SIDE - toSide(clamp(state.u[state.axes[1]]));
  point.setAttribute("transform", `translate(${x} ${y})`);
  const ends = [{ x1: x, x2: x, y1: 0, y2: SIDE }, { x1: 0, x2: SIDE, y1: y, y2: y }];
  ends.forEach((end, i) => Object.entries(end).forEach(([k, v]) => cross[i].setAttribute(k, v)));
}

// The background: how much is marked at each place of the plane, from few pixels.
const HEAT_SIZE = 25;
let heatRun = 0;

async function drawHeat() {
  const run = ++heatRun;
  const stride = Math.max(1, Math.round(Math.sqrt(numPixels / 1600)));
  const start = labelsOf(decode(view.mean, stride));
  const values = new Float32Array(HEAT_SIZE * HEAT_SIZE);
  let paused = performance.now();
  for (let i = 0; i < values.length; i++) {
    const u = Float64Array.from(state.u);
    u[state.axes[0]] = RANGE * ((2 * ((i % HEAT_SIZE) + 0.5)) / HEAT_SIZE - 1);
    u[state.axes[1]] = RANGE * (1 - (2 * (Math.floor(i / HEAT_SIZE) + 0.5)) / HEAT_SIZE);
    const labels = labelsOf(decode(toZ(u), stride));
    values[i] = isBinary
      ? countForeground(labels)
      : labels.reduce((n, label, j) => n + (label !== start[j] ? 1 : 0), 0);
    if (performance.now() - paused > 12) {
      await new Promise((resolve) => setTimeout(resolve));
      paused = performance.now();
      if (run !== heatRun) return;
    }
  }
  const most = Math.max(...values, 1);
  const small = document.createElement("canvas");
  small.width = small.height = HEAT_SIZE;
  const target = small.getContext("2d");
  const pixels = target.createImageData(HEAT_SIZE, HEAT_SIZE);
  values.forEach((v, i) => {
    const share = Math.sqrt(v / most); // So that small differences show too.
    pixels.data.set([255 - 130 * share, 255 - 75 * share, 255 - 25 * share, 255], 4 * i);
  });
  target.putImageData(pixels, 0, 0);
  heat.setAttribute("href", small.toDataURL());
  explorer.dataset.heat = "done";
}

// --- Following the point ---------------------------------------------------------

const explorer = document.getElementById("explorer");
const statusLine = document.getElementById("status");
let frame = 0;
let settleTimer = 0;

// Large images are drawn at a lower resolution while the point moves.
const MOVING_STRIDE = numPixels > 65536 ? 2 : 1;

function upsample(probabilities, stride) {
  const cols = Math.ceil(width / stride);
  const full = new Float32Array(numPixels * numClasses);
  for (let i = 0; i < numPixels; i++) {
    const y = Math.floor(Math.floor(i / width) / stride);
    const from = (y * cols + Math.floor((i % width) / stride)) * numClasses;
    for (let k = 0; k < numClasses; k++) full[i * numClasses + k] = probabilities[from + k];
  }
  return full;
}

function compute(stride) {
  const probabilities = decode(toZ(state.u), stride);
  state.probabilities = stride === 1 ? probabilities : upsample(probabilities, stride);
  state.labels = labelsOf(state.probabilities);
  drawImage();
}

function moved() {
  clearTimeout(settleTimer);
  delete explorer.dataset.labels;
  drawPoint();
  drawSliders();
  if (!frame) {
    frame = requestAnimationFrame(() => {
      frame = 0;
      compute(MOVING_STRIDE);
      settleTimer = setTimeout(settle, 120);
    });
  }
}

// When the point rests: the exact picture, the words, and a record for scripts.
function settle() {
  if (MOVING_STRIDE > 1) compute(1);
  const z = toZ(state.u);
  const distance = Math.hypot(...state.u);
  const count = countForeground(state.labels);
  const place = state.axes.map((a) => `z${a + 1} ${signed(state.u[a])}σ`).join(", ");
  const shown = isBinary
    ? count === 0 ? "nothing is marked" : `${data.classes[1]}: ${areaText(count)}`
    : isOutlined
      ? classAreas(state.labels) || "nothing is marked"
      : `${new Set(state.labels).size} classes`;
  statusLine.textContent = `${place}; ${distance.toFixed(2)}σ from the prior mean; ${shown}.`;
  explorer.dataset.latent = JSON.stringify(z);
  explorer.dataset.foreground = count;
  const slice = views.length > 1 ? `&slice=${view.number}` : "";
  if (slice) showVolume();
  explorer.dataset.labels = encode(state.labels);
  history.replaceState(null, "", `#z=${z.map((v) => +v.toPrecision(6)).join(",")}${slice}`);
  markPressed();
}

// The volume of the hypothesis at the point, over all slices.
function showVolume() {
  const counts = views.map((one) =>
    one === view
      ? countForeground(state.labels)
      : countForeground(labelsOf(decode(toZ(state.u, one), 1, one)))
  );
  const total = counts.reduce((sum, n) => sum + n, 0);
  const marked = views.filter((_, i) => counts[i] > 0).map((one) => one.number);
  const size = data.pixelMm2 === null || data.stepMm === null
    ? `${total} voxels`
    : `${(total * data.pixelMm2 * data.stepMm).toFixed(0)} mm³`;
  document.getElementById("volume").textContent = total
    ? `Volume at the point: ${size}, on ${marked.length} slices from ${marked[0]} to ${marked[marked.length - 1]}.`
    : "Nothing is marked on any slice at this point.";
  explorer.dataset.voxels = total;
  explorer.dataset.slice = view.number;
}

const signed = (v) => (v < 0 ? "−" : "+") + Math.abs(v).toFixed(2);

function encode(labels) {
  let text = "";
  for (const label of labels) text += String.fromCharCode(label);
  return btoa(text);
}

function moveTo(u) {
  state.u = Float64Array.from(u);
  moved();
}

// --- Controls --------------------------------------------------------------------

function fromPointer(event) {
  const box = plane.getBoundingClientRect();
  const x = ((event.clientX - box.left) / box.width) * 2 - 1;
  const y = 1 - ((event.clientY - box.top) / box.height) * 2;
  const u = Float64Array.from(state.u);
  u[state.axes[1]] = clamp(y * RANGE);
  u[state.axes[0]] = clamp(x * RANGE); // Last: it is the only one if L is 1.
  moveTo(u);
}

let dragging = false;
plane.addEventListener("pointerdown", (event) => {
  dragging = true;
  plane.setPointerCapture(event.pointerId);
  fromPointer(event);
});
plane.addEventListener("pointermove", (event) => dragging && fromPointer(event));
for (const name of ["pointerup", "pointercancel"]) {
  plane.addEventListener(name, () => (dragging = false));
}

plane.addEventListener("keydown", (event) => {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, 1], ArrowDown: [1, -1] };
  const u = Float64Array.from(state.u);
  if (event.key === "Home") u.fill(0);
  else if (steps[event.key]) {
    const [axis, sign] = steps[event.key];
    const at = state.axes[axis];
    u[at] = clamp(u[at] + sign * (event.shiftKey ? 0.5 : 0.1));
  } else return;
  event.preventDefault();
  moveTo(u);
});

const selects = [document.getElementById("axis-x"), document.getElementById("axis-y")];
selects.forEach((select, which) => {
  for (let i = 0; i < latentDim; i++) select.add(new Option(`z${i + 1}`, i));
  select.disabled = latentDim <= 2;
  select.addEventListener("change", () => {
    const chosen = Number(select.value);
    const other = 1 - which;
    // The two axes change places rather than being the same.
    if (chosen === state.axes[other]) state.axes[other] = state.axes[which];
    state.axes[which] = chosen;
    axesChanged();
  });
});

const sliders = document.getElementById("sliders");
let sliderInputs = [];

function axesChanged() {
  selects.forEach((select, i) => (select.value = state.axes[i]));
  sliders.replaceChildren();
  sliderInputs = [];
  for (let i = 0; i < latentDim; i++) {
    if (state.axes.includes(i)) continue;
    const label = document.createElement("label");
    const input = document.createElement("input");
    const output = document.createElement("output");
    Object.assign(input, { type: "range", min: -RANGE, max: RANGE, step: 0.05 });
    input.addEventListener("input", () => {
      const u = Float64Array.from(state.u);
      u[i] = Number(input.value);
      moveTo(u);
      delayHeat();
    });
    label.append(`z${i + 1}`, input, output);
    sliders.append(label);
    sliderInputs.push({ i, input, output });
  }
  plane.setAttribute("aria-label", `Latent plane of z${state.axes[0] + 1} and z${state.axes[1] + 1}`);
  drawDots();
  moved();
  delayHeat();
}

function drawSliders() {
  for (const { i, input, output } of sliderInputs) {
    input.value = state.u[i];
    output.textContent = `${signed(state.u[i])}σ`;
  }
}

let heatTimer = 0;
function delayHeat() {
  clearTimeout(heatTimer);
  heatTimer = setTimeout(drawHeat, 250);
}

function jump(u) {
  moveTo(u);
  delayHeat();
}

document.getElementById("to-mean").addEventListener("click", () => jump(new Float64Array(latentDim)));
document.getElementById("to-random").addEventListener("click", () => {
  const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
  jump(Float64Array.from({ length: latentDim }, normal));
});
const sliceInput = document.getElementById("slice");
sliceInput.addEventListener("input", () => chooseSlice(Number(sliceInput.value)));

function chooseSlice(place) {
  view = views[place];
  sliceInput.value = place;
  document.getElementById("slice-number").textContent = view.number;
  bases.image = raster(pictureColor);
  delete bases.mean;
  delete bases.entropy;
  for (const sample of samples) {
    delete sample.path;
    delete sample.paths;
  }
  moved();
  delayHeat();
  drawSamples();
}

for (const radio of document.querySelectorAll("input[name=base]")) {
  radio.addEventListener("change", () => {
    state.base = radio.value;
    drawImage();
  });
}
for (const id of ["show-current", "show-samples", "show-graders"]) {
  document.getElementById(id).addEventListener("change", drawImage);
}

// --- Samples and graders ---------------------------------------------------------

const percent = (share) => `${Math.round(100 * share)}%`;
const hypotheses = data.hypotheses.map(({ sample, probability }) => {
  const u = sampleU[sample];
  return { u, sample, ...addThumbnail("hypotheses", `hypothesis ${percent(probability)}`, u) };
});
document.getElementById("hypotheses-help").textContent =
  `With these probabilities they stand for ${percent(data.explained)} of the diversity of ` +
  `the ${data.samples.length} samples.`;

// Samples are counted from 0, as in the files of run/predict.py.
const samples = sampleU.map((u, i) => ({ u, ...addThumbnail("samples", `sample ${i}`, u) }));
const shownGraders = graderU.map((u, i) => ({ u, ...addThumbnail("graders", graders[i].name, u) }));

function addThumbnail(list, name, u) {
  const button = document.createElement("button");
  const thumbnail = document.createElement("canvas");
  const caption = document.createElement("span");
  button.type = "button";
  thumbnail.width = width;
  thumbnail.height = height;
  thumbnail.setAttribute("aria-hidden", "true");
  caption.textContent = name;
  button.append(thumbnail, caption);
  button.addEventListener("click", () => jump(u));
  const item = document.createElement("li");
  item.append(button);
  document.getElementById(list).append(item);
  return { button, thumbnail, caption, name };
}

function drawThumbnail(entry, labels, color) {
  const shade = (i) => {
    const base = pictureColor(i);
    if (isOutlined) {
      const own = labels[i] ? data.colors[labels[i]] : undefined;
      return own ? base.map((v, c) => 0.45 * v + 0.55 * own[c]) : base;
    }
    if (!isBinary) return data.colors[labels[i]] || [0, 0, 0];
    return labels[i] === 1 ? base.map((v, c) => 0.45 * v + 0.55 * color[c]) : base;
  };
  entry.thumbnail.getContext("2d").drawImage(raster(shade), 0, 0);
  if (isBinary) {
    const count = labels.reduce((n, label) => n + (label === 1 ? 1 : 0), 0);
    const text = count ? areaText(count) : "empty";
    entry.caption.textContent = `${entry.name.split(" ")[1]}: ${text}`;
    entry.button.setAttribute("aria-label", `${entry.name}, ${text}`);
  } else if (isOutlined) {
    const text = classAreas(labels) || "empty";
    entry.button.setAttribute("aria-label", `${entry.name}, ${text}`);
    entry.button.title = text;
  }
}

function markPressed() {
  for (const entry of [...hypotheses, ...samples, ...shownGraders]) {
    const here = entry.u.every((v, i) => Math.abs(v - state.u[i]) < 1e-6);
    entry.button.setAttribute("aria-pressed", here);
  }
}

// Mean and entropy over the samples, and their outlines; a sample at a time, so that
// the page can be used meanwhile.
let samplesRun = 0;

async function drawSamples() {
  const run = ++samplesRun;
  delete explorer.dataset.ready;
  shownGraders.forEach((entry, i) => drawThumbnail(entry, graders[i].labels, [240, 228, 66]));
  const mean = new Float32Array(numPixels * numClasses);
  for (const [i, sample] of samples.entries()) {
    const probabilities = decode(toZ(sample.u));
    for (let j = 0; j < mean.length; j++) mean[j] += probabilities[j] / samples.length;
    const labels = labelsOf(probabilities);
    drawThumbnail(sample, labels, [86, 180, 233]);
    for (const entry of hypotheses) {
      if (entry.sample === i) drawThumbnail(entry, labels, [86, 180, 233]);
    }
    if (isOutlined) sample.paths = classPaths(labels);
    if (isBinary) sample.path = outline((j) => probabilities[2 * j + 1]);
    await new Promise((resolve) => setTimeout(resolve));
    if (run !== samplesRun) return;
  }
  const likely = labelsOf(mean);
  const entropy = new Float32Array(numPixels);
  for (let j = 0; j < mean.length; j++) {
    if (mean[j] > 0) entropy[Math.floor(j / numClasses)] -= mean[j] * Math.log(mean[j]);
  }
  const grey = (v) => [255 * v, 255 * v, 255 * v];
  bases.mean = raster((i) => (isBinary ? grey(mean[2 * i + 1]) : data.colors[likely[i]]));
  bases.entropy = raster((i) => heatColor(entropy[i] / Math.log(numClasses)));
  explorer.dataset.meanForeground = mean.reduce((s, v, j) => s + (j % numClasses ? v : 0), 0);
  explorer.dataset.entropySum = entropy.reduce((s, v) => s + v, 0);
  drawImage();
  explorer.dataset.ready = "true";
}

// --- Start -----------------------------------------------------------------------

function fromHash() {
  const chosen = /&slice=(\d+)/.exec(location.hash);
  const place = chosen ? views.findIndex((one) => one.number === Number(chosen[1])) : -1;
  if (place >= 0 && views[place] !== view) chooseSlice(place);
  const match = /#z=([^&]*)/.exec(location.hash);
  const z = match ? match[1].split(",").map(Number) : [];
  if (z.length === latentDim && z.every(Number.isFinite)) moveTo(toU(z));
}

function start() {
  if (!isBinary) {
    explorer.classList.add("many");
    data.classes.forEach((name, k) => {
      if (isOutlined && k === 0) return; // The background has no outline.
      const item = document.createElement("li");
      const box = document.createElement("i");
      box.style.background = `rgb(${data.colors[k]})`;
      item.append(box, name);
      document.getElementById("legend").append(item);
    });
    for (const id of isOutlined ? [] : ["show-samples", "show-graders"]) {
      document.getElementById(id).parentElement.hidden = true;
    }
  }
  if (!graders.length) {
    for (const id of ["graders-section", "graders-toggle", "graders-help"]) {
      document.getElementById(id).hidden = true;
    }
  } else if (graders[0].kind === "mode") {
    document.getElementById("graders-title").textContent = "Modes of the ground truth, the most probable first";
    document.getElementById("graders-help").textContent = "Numbered dots: the posterior means of the true modes. ";
  }
  document.getElementById("heat-help").textContent = isBinary
    ? `The darker the plane, the larger the ${data.classes[1]} there.`
    : "The darker the plane, the more pixels differ from those at the prior mean.";
  if (views.length > 1) {
    sliceInput.max = views.length - 1;
    sliceInput.value = data.slice;
    document.getElementById("slice-number").textContent = view.number;
    for (const id of ["slice-row", "volume"]) document.getElementById(id).hidden = false;
  }
  state.u = Float64Array.from(sampleU[data.start] || state.u);
  axesChanged();
  fromHash();
  addEventListener("hashchange", fromHash);
  drawSamples();
}

start();
