// Runs the suite's own client against one cache and writes what came of every test, as JSON.
//
//   node client.mjs '{"suite": DIR, "base": URL, "proxy": URL or null, "only": [ID, …] or null, "out": FILE}'
//
// Two generations of the suite are understood. The older one is handed a fetch (node-fetch, as its own command does),
// the newer one uses Node's. Neither honours HTTP_PROXY, so with "proxy" requests are sent there by what stands below
// fetch: an http.Agent for the one, an undici dispatcher for the other, both writing the absolute-form.

import fs from 'node:fs'
import http from 'node:http'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const { suite, base, proxy, only, out } = JSON.parse(process.argv[2])
const through = proxy ? new URL(proxy) : null
const load = (...parts) => import(pathToFileURL(path.join(suite, ...parts)))

class AbsoluteForm extends http.Agent {
  addRequest (request, options) {
    request.path = `http://${request.getHeader('host')}${request.path}`
    super.addRequest(request, { ...options, host: through.hostname, port: through.port })
  }
}

// The dispatcher that the caller brings (one that listens for 1xx, say) stays in use, pointed at the proxy.
function pointed (dispatcher) {
  return {
    dispatch (options, handler) {
      const host = new URL(options.origin).host
      const headers = Array.isArray(options.headers)
        ? [...options.headers, 'host', host]
        : { ...options.headers, host }
      const path = `http://${host}${options.path}`
      return dispatcher.dispatch({ ...options, origin: through.origin, path, headers }, handler)
    }
  }
}

function nodeFetch () {
  const fetch = createRequire(path.join(suite, 'package.json'))('node-fetch')
  if (!through) return fetch
  const agent = new AbsoluteForm()
  return (url, init) => fetch(url, { ...init, agent })
}

const isNew = fs.existsSync(path.join(suite, 'test-engine'))
const { runTests, getResults } = await load(...(isNew ? ['test-engine'] : []), 'client', 'runner.mjs')
const suites = (await load('tests', 'index.mjs')).default

const wanted = only && new Set(only)
const chosen = suites.map(each => ({ ...each, tests: each.tests.filter(test => !wanted || wanted.has(test.id)) }))

if (isNew && through) {
  const fetch = globalThis.fetch
  await fetch('data:,') // gives the global dispatcher its place
  const usual = globalThis[Symbol.for('undici.globalDispatcher.1')]
  globalThis.fetch = (url, init = {}) => fetch(url, { ...init, dispatcher: pointed(init.dispatcher ?? usual) })
}
await (isNew ? runTests(chosen, false, base) : runTests(chosen, nodeFetch(), false, base))

const tests = suites.flatMap(each => each.tests.map(test => ({
  suite: each.id,
  id: test.id,
  kind: test.kind ?? 'required',
  depends: test.depends_on ?? [],
  browser: test.browser_only === true
})))
fs.writeFileSync(out, JSON.stringify({ tests, results: getResults() }))
process.exit(0)
