// Evaluates (prompt, test) pairs with promptfoo. Each line of stdin is a JSON request, each line of stdout a reply.
//   node worker.mjs PATH_OF_THE_PACKAGE_PROMPTFOO
// {id, open: {config: path or object, provider, code}} -> {id, ok: {version, provider, concurrency, prompts, tests}}
// {id, evaluate: {pairs: [{prompt: index or {raw, label}, test: index}], timeout}} -> {id, ok: [row or null, ...]}
// The reply to a request that fails is {id, error}. Paths in a config are relative to the working folder.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { extname, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const reply = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr); // The user's code may print.

const root = process.argv[2];
const require = createRequire(resolve(root, 'package.json'));
const entry = require('./package.json').exports['.'].import;
const promptfoo = await import(pathToFileURL(resolve(root, typeof entry === 'string' ? entry : entry.default)).href);

let config, code, provider, prompts, tests;

async function open(request) {
  code = request.code;
  // Without this, promptfoo renders the variables' values as templates, before it renders the prompt.
  if (!code) process.env.PROMPTFOO_DISABLE_JSON_AUTOESCAPE = 'true';
  config = typeof request.config === 'string' ? await read(request.config) : request.config;
  await checkVersion();
  if (config.extensions?.length) throw new Error('the config has `extensions`, which promptfoo runs only in its own command');
  provider = await findProvider([config.providers ?? config.targets ?? []].flat(), request.provider);
  prompts = (await readPrompts(config.prompts ?? [])).filter(({ label }) => allowed(provider.prompts, label));
  tests = await readTests();
  if (!code) checkTemplates();
  return {
    version: version(),
    unsupported: unsupported(),
    provider: { id: provider.id, label: provider.label },
    concurrency: config.evaluateOptions?.maxConcurrency ?? null,
    prompts: prompts.map(({ raw, label }) => ({ raw, label })),
    tests: tests.map((test) => ({
      description: test.description ?? null,
      vars: test.vars,
      metadata: test.metadata,
      metrics: [...new Set(leaves(test).flatMap(({ metric }) => metric ?? []))],
      unbounded: [...new Set(leaves(test).filter((one) => isUnbounded(one, test)).map(({ metric, type }) => metric ?? type))],
      serial: Boolean(test.options.runSerially),
    })),
  };
}

const version = () => require('./package.json').version;

// evaluate() combines each test with one prompt through the `prompts` of a test. Old versions ignore that field.
async function checkVersion() {
  let calls = 0;
  const listener = async () => ({ error: `${++calls}` });
  const tests = ['a', 'b'].map((one) => ({ vars: { one }, prompts: [one] }));
  const prompts = ['a', 'b'].map((one) => ({ raw: one, label: one }));
  await promptfoo.evaluate({ prompts, tests, providers: [listener] }, { cache: false });
  if (calls !== 2) throw new Error(`promptfoo ${version()} is too old, because asktell needs 0.121.15 or newer. Run: npm install promptfoo@latest`);
}

// A message if promptfoo does not support this version of Node, else null.
function unsupported() {
  const range = require('./package.json').engines?.node ?? '';
  const mine = process.versions.node.split('.').map(Number);
  const fits = (part) => {
    const [, sign, ...numbers] = /^(\^|>=) ?(\d+)\.(\d+)\.(\d+)$/.exec(part.trim()) ?? [];
    if (!sign) return true;
    const at = mine.findIndex((number, index) => number !== Number(numbers[index]));
    return (at < 0 || mine[at] > Number(numbers[at])) && (sign === '>=' || at !== 0);
  };
  return range.split('||').some(fits) ? null : `promptfoo ${version()} needs Node ${range}, but this is Node ${process.versions.node}`;
}

async function read(path) {
  const extension = extname(path);
  if (!['.yaml', '.yml', '.json'].includes(extension)) {
    const module = await import(pathToFileURL(resolve(path)).href);
    return module.default ?? module;
  }
  const found = require('js-yaml').load(readFileSync(path, 'utf8'));
  if (!found || typeof found !== 'object') throw new Error(`${path} is not a promptfoo config`);
  if (found.config && found.results) return found.config; // A file of `promptfoo export`.
  if (!JSON.stringify(found).includes('"$ref"')) return found;
  const parser = await import(pathToFileURL(require.resolve('@apidevtools/json-schema-ref-parser')).href);
  return parser.dereference(found);
}

async function findProvider(entries, wanted) {
  const found = [];
  for (const entry of entries) {
    const loaded = async () => (await suite({ providers: [entry], env: config.env })).providers;
    (await loaded()).forEach((one, nth, all) => {
      // Each batch loads the provider again, because promptfoo shuts it down at the end of an evaluation.
      const load = async () => (all.length === 1 ? unfiltered(entry) : (await loaded())[nth]);
      found.push({ id: one.id(), label: one.label || one.id(), prompts: entry.prompts, load });
    });
  }
  const fitting = found.filter(({ id, label }) => wanted == null || wanted === id || wanted === label);
  if (fitting.length !== 1) {
    const names = found.map(({ label }) => JSON.stringify(label)).join(', ') || 'none';
    throw new Error(wanted == null || fitting.length > 1
      ? `asktell evaluates one provider at a time, but the config has ${names}. Pass the label of one as provider=... (asktell init --model)`
      : `the config has no provider ${JSON.stringify(wanted)}, but ${names}`);
  }
  return fitting[0];
}

const unfiltered = (entry) => (typeof entry === 'object' ? { ...entry, prompts: undefined } : entry);

// As in promptfoo, a reference is the whole label or its part before a colon.
function allowed(references, label) {
  return references === undefined || references.some((reference) =>
    label === reference || label.startsWith(`${reference.replace(/:?\*$/, '')}:`));
}

// Lets promptfoo read a suite: it turns files, globs, spreadsheets and functions into prompts and tests.
async function suite(part) {
  const kept = Symbol.for('asktell.suite');
  globalThis[kept] = undefined;
  const hook = new URL('capture.mjs', import.meta.url);
  try {
    await promptfoo.evaluate({ prompts: ['x'], providers: ['echo'], tests: [], ...part, extensions: [`${hook}:beforeAll`] });
  } catch (error) {
    if (globalThis[kept] === undefined) throw error;
  }
  return globalThis[kept];
}

async function readPrompts(listed) {
  const entries = typeof listed === 'object' && !Array.isArray(listed)
    ? Object.entries(listed).map(([raw, label]) => ({ raw, label }))
    : [listed].flat();
  const found = [];
  for (const entry of entries) {
    const path = typeof entry === 'object' ? entry.raw ?? entry.id : undefined;
    if (path?.startsWith('file://')) { // Only promptfoo's command reads these, not its library.
      const parts = (await suite({ prompts: [path] })).prompts;
      const label = (part) => (parts.length === 1 ? entry.label : `${entry.label}: ${part.label}`);
      found.push(...parts.map((part) => ({ ...part, config: entry.config, label: entry.label ? label(part) : part.label })));
    } else {
      found.push(...(await suite({ prompts: [entry] })).prompts);
    }
  }
  return found;
}

// Every test as a provider gets it: with the defaults, and one test for each combination of variables.
async function readTests() {
  const { nunjucksFilters: _, ...part } = given();
  const read = await suite(part);
  const scenarios = (read.scenarios ?? []).flatMap(({ config, tests }) => [config ?? [], tests ?? []].flat());
  for (const test of [read.defaultTest ?? {}, ...read.tests, ...scenarios]) check(test);
  const found = [];
  const listener = async (_, { test }) => {
    found.push(test);
    return { error: 'asktell has read the test' }; // After an error, promptfoo runs no assertion.
  };
  const record = await promptfoo.evaluate({ ...part, prompts: ['x'], providers: [listener] }, { cache: false, maxConcurrency: 1 });
  const rows = (await record.toEvaluateSummary()).results;
  if (found.length < rows.length) {
    const failed = rows.find(({ error }) => !error?.includes('asktell has read the test'));
    throw new Error(`promptfoo cannot read the test with the variables ${JSON.stringify(failed?.vars)}: ${failed?.error}`);
  }
  found.forEach(check);
  return found.map(({ options: { transformVars, repeat, ...options } = {}, ...test }) => (
    { ...test, options: { ...options, disableVarExpansion: true } }
  ));
}

function given() {
  const { tests = [], scenarios, defaultTest, nunjucksFilters } = config;
  const env = code ? config.env : { ...config.env, PROMPTFOO_DISABLE_JSON_AUTOESCAPE: 'true' }; // Takes precedence over the process's environment.
  return { tests, scenarios, defaultTest, env, nunjucksFilters };
}

function check(test) {
  const name = `the test ${JSON.stringify(test.description ?? test.vars ?? 'defaultTest')}`;
  for (const key of ['prompts', 'provider', 'providers', 'providerOutput']) {
    if (test[key] !== undefined) throw new Error(`${name} has \`${key}\`, but asktell selects the prompt and the provider of each evaluation. Remove it`);
  }
  if (test.options?.storeOutputAs) throw new Error(`${name} has \`storeOutputAs\`, but asktell evaluates tests in any order. Remove it`);
  const program = code ? undefined : Object.values(Object(test.vars)).flat().find(isProgram);
  if (program) throw new Error(`${name} has the variable ${JSON.stringify(program)}, a program that promptfoo would run. ${CURE}`);
  const other = leaves(test).find(({ type }) => type === 'select-best' || type === 'max-score');
  if (other) throw new Error(`${name} asserts ${other.type}, which compares several prompts, but asktell evaluates prompts one by one. Remove it`);
}

const CURE = 'If only you write prompts and tests, allow it: prompts_are_code=True (in a configuration: prompts_are_code = true in [evaluator])';

// Whether promptfoo would run the value to get a variable. A glob pattern counts, because it may match a program.
function isProgram(value) {
  if (typeof value !== 'string' || !/^(file:\/\/|package:)/.test(value)) return false;
  const extension = /\.(\w+)$/.exec(value)?.[1];
  return value.startsWith('package:') || (extension ? /^([cm]?[jt]s|py)$/i.test(extension) : /[*?[\]{}()!]/.test(value));
}

function checkTemplates() {
  const given = prompts.filter(({ function: made }) => !made).map(({ label, raw }) => [`the prompt ${JSON.stringify(label)}`, raw]);
  for (const { options: { prefix, suffix } } of tests) given.push(['a prefix', prefix ?? ''], ['a suffix', suffix ?? '']);
  for (const [name, text] of given) {
    const more = text.replace(VARIABLE, '').match(/^(portkey|langfuse|helicone):\/\/|\{\{[^]*?\}\}|\{%[^]*?%\}|\{#[^]*?#\}/);
    if (more) throw new Error(`${name} has ${JSON.stringify(more[0])}, but a prompt may only have variables, such as {{name}}. ${CURE}`);
  }
}

// Prompts as data: the worker fills in their variables and escapes the rest, so that nunjucks evaluates nothing.

const VARIABLE = /\{\{\s*((?!env\b)[A-Za-z_]\w*(?:\.\w+)*)\s*\}\}/g; // `env` has API keys.

function asData({ raw, config, function: make }, { options: { prefix = '', suffix = '' } }) {
  const rendered = (text, vars) => literal(withVariables(text, resolved(vars)));
  return {
    raw: 'asktell', // promptfoo would fetch a text such as langfuse://...
    config,
    async function(context) {
      if (!make) return rendered(prefix + raw + suffix, context.vars);
      const made = await make(context);
      const { prompt, config } = made?.prompt === undefined ? { prompt: made } : made;
      return { prompt: rendered(typeof prompt === 'string' ? prompt : JSON.stringify(prompt), context.vars), config };
    },
  };
}

// Fills in variables as promptfoo does: in the strings of a text that is JSON, or else in the whole text.
function withVariables(text, vars) {
  const fill = (part) => part.replace(VARIABLE, (_, path) => {
    const value = path.split('.').reduce((whole, key) => (Object.hasOwn(Object(whole), key) ? whole[key] : undefined), vars);
    return value == null ? '' : String(value);
  });
  const each = (part) => {
    if (typeof part === 'string') return fill(part);
    if (Array.isArray(part)) return part.map(each);
    if (part && typeof part === 'object') return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, each(value)]));
    return part;
  };
  let parsed;
  try {
    parsed = JSON.parse(text);
  } catch {
    return fill(text);
  }
  return JSON.stringify(each(parsed), null, 2);
}

// Fills in variables within variables as promptfoo does, up to five levels deep.
function resolved(given) {
  const vars = Object.fromEntries(Object.entries(given).map(
    ([name, value]) => [name, typeof value === 'string' ? value.replace(/\n$/, '') : value]));
  for (let turn = 0, found = true; found && turn < 5; turn++) {
    found = false;
    for (const name of Object.keys(vars)) {
      const [placeholder, other] = (typeof vars[name] === 'string' && /\{\{\s*(\w+)\s*\}\}/.exec(vars[name])) || [];
      if (placeholder && Object.hasOwn(vars, other) && vars[other] !== undefined) {
        vars[name] = vars[name].replace(placeholder, () => vars[other]);
        found = true;
      }
    }
  }
  return vars;
}

// Returns a template that renders as the text.
const literal = (text) => text.replace(/\{(?=[{%#])|(?<=#)\}/g, (brace) => `{{ '${brace}' }}`);

function leaves(test) {
  return (test.assert ?? []).flatMap((one) => (one.type === 'assert-set' ? [one, ...one.assert] : [one]));
}

// Whether an assertion's score may be any number. It may if the assertion runs code, unless the code returns a boolean.
function isUnbounded({ type, value }, test) {
  if (!/^(not-)?(javascript|python|ruby|webhook)$/.test(type ?? '')) return false;
  if (!type.endsWith('javascript') || typeof value !== 'string' || value.startsWith('file://')) return true;
  try {
    const body = value.includes('\n') ? value : `return ${value}`; // As promptfoo does.
    return typeof new Function('output', 'context', body)('an answer', { vars: test.vars ?? {}, prompt: '' }) !== 'boolean';
  } catch {
    return true;
  }
}

async function evaluate({ pairs, timeout }) {
  // promptfoo cannot run two evaluations at once. So one evaluation has all pairs, with a prompt of its own for each.
  const mark = (position) => `asktell-${position}`;
  const known = pairs.map(({ prompt }) => (typeof prompt === 'number' ? prompts[prompt] : prompt));
  const { env, nunjucksFilters } = given();
  const record = await promptfoo.evaluate({
    env,
    nunjucksFilters,
    providers: [await provider.load()],
    prompts: known.map((prompt, position) => (
      { ...(code ? prompt : asData(prompt, tests[pairs[position].test])), label: mark(position) }
    )),
    tests: pairs.map(({ test }, position) => ({
      ...tests[test],
      options: { ...tests[test].options },
      metadata: { ...tests[test].metadata, asktell: position },
      prompts: [mark(position)],
    })),
  }, {
    delay: config.evaluateOptions?.delay,
    cache: false,
    showProgressBar: false,
    maxConcurrency: Math.min(pairs.length, config.evaluateOptions?.maxConcurrency ?? pairs.length),
    timeoutMs: 1000 * timeout,
  });
  const rows = pairs.map(() => null);
  for (const row of (await record.toEvaluateSummary()).results) {
    const { asktell: position, ...metadata } = row.testCase.metadata;
    const { prompts: _, ...testCase } = { ...row.testCase, metadata };
    delete row.metadata?.asktell;
    rows[position] = { ...row, testCase, prompt: { ...row.prompt, ...named(known[position]) } };
  }
  return rows;
}

const named = ({ raw, label }) => ({ label, template: raw });

// Providers have circular references. As in promptfoo, their id replaces them.
const plain = (_, value) => (typeof value?.callApi === 'function' ? value.id() : value);

const requests = createInterface({ input: process.stdin });
requests.on('close', () => process.exit()); // The parent process has ended.
for await (const line of requests) {
  const { id, ...request } = JSON.parse(line);
  let outcome;
  try {
    outcome = JSON.stringify({ id, ok: request.open ? await open(request.open) : await evaluate(request.evaluate) }, plain);
  } catch (error) {
    outcome = JSON.stringify({ id, error: String(error?.message ?? error) });
  }
  reply(`\n${outcome}\n`); // Starts a new line, because a child process may have written to the same pipe.
}
