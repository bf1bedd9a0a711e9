// Reads the compressed chunks of the page; see encoding.py and explorer.py for their form.
"use strict";
window.decode = (() => {
  const decoder = new TextDecoder();

  async function bytes(chunk) {
    const text = document.getElementById("chunk-" + chunk).textContent;
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

  return { lines, numbers, shapes };
})();
