// Reads the compressed chunks of the page and of the files beside it; see encoding.py, chunks.py and explorer.py.
"use strict";
window.decode = (() => {
  const decoder = new TextDecoder();

  // A file that is not there, or is not read.
  class Unread extends Error {}
  const waiting = new Map();
  // A file beside the page is a script, which a page from a disk can load, too; it calls this with its number and text.
  window.held = (chunk, text) => waiting.get(chunk)?.(text);
  const inPage = (chunk) => document.getElementById("chunk-" + chunk) !== null;

  function beside(chunk) {
    return new Promise((found, failed) => {
      const script = document.createElement("script");
      const end = () => { script.remove(); waiting.delete(chunk); failed(new Unread(script.src)); };
      waiting.set(chunk, found);
      script.addEventListener("load", end);
      script.addEventListener("error", end);
      script.src = `report/${chunk}.js`;
      document.head.append(script);
    });
  }

  async function bytes(chunk) {
    const text = inPage(chunk) ? document.getElementById("chunk-" + chunk).textContent : await beside(chunk);
    const raw = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
    const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  async function lines(chunk) {
    return decoder.decode(await bytes(chunk)).split("\n");
  }

  // Whole numbers, byte plane by byte plane; the first byte is the number of planes.
  async function numbers(chunk) {
    const data = await bytes(chunk);
    const width = data[0];
    const n = (data.length - 1) / width;
    const found = width <= 2 ? new Uint16Array(n) : new Float64Array(n);
    for (let plane = 0, weight = 1; plane < width; plane++, weight *= 256) {
      const start = 1 + plane * n;
      for (let i = 0; i < n; i++) found[i] += data[start + i] * weight;
    }
    return found;
  }

  // GeoJSON features, flattened so that a picture of them has the right shape.
  async function shapes(map) {
    const stream = await numbers(map.shapes);
    const features = [];
    let at = 0;
    const signed = () => { const folded = stream[at++]; return folded % 2 ? -(folded + 1) / 2 : folded / 2; };
    while (at < stream.length) {
      const row = stream[at++];
      const polygons = [];
      for (let p = stream[at++]; p > 0; p--) {
        const rings = [];
        for (let r = stream[at++]; r > 0; r--) {
          const ring = [];
          let x = 0, y = 0;
          for (let n = stream[at++]; n > 0; n--) {
            x += signed();
            y += signed();
            ring.push([(x / 1e6) * map.flattening, y / 1e6]);
          }
          ring.push(ring[0]);
          rings.push(ring);
        }
        polygons.push(rings);
      }
      features.push({ type: "Feature", row, geometry: { type: "MultiPolygon", coordinates: polygons } });
    }
    return features;
  }

  return { lines, numbers, shapes, inPage, Unread };
})();
