// What the site's search finds first: `node search.js SITE QUERY...` runs the theme's own worker on the built index.
const fs = require("fs"), path = require("path"), vm = require("vm")
const [site, ...queries] = process.argv.slice(2)
const folder = path.join(site, "assets/javascripts/workers")
const worker = fs.readdirSync(folder).find(name => /^search\..*\.js$/.test(name))
const waiting = []
let listener
const scope = { console, addEventListener: (_, one) => { listener = one }, postMessage: data => waiting.shift()(data) }
scope.self = scope
vm.runInNewContext(fs.readFileSync(path.join(folder, worker), "utf8"), scope)
const ask = data => new Promise(done => { waiting.push(done); listener({ data }) })

async function main() {
  const index = JSON.parse(fs.readFileSync(path.join(site, "search/search_index.json"), "utf8"))
  await ask({ type: 0, data: { ...index, options: { suggest: false } } })
  const found = {}
  for (const query of queries)
    found[query] = (await ask({ type: 2, data: query })).data.items.map(([page]) => page.location.split("#")[0])
  console.log(JSON.stringify(found))
}
main()
