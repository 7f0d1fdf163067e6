// Evaluates (prompt, test) pairs with promptfoo: a JSON request on each line of stdin, its reply on a line of stdout.
//   node worker.mjs PATH_OF_THE_PACKAGE_PROMPTFOO
// {id, open: {config: path or object, provider, code}} -> {id, ok: {version, provider, concurrency, prompts, tests}}
// {id, evaluate: {pairs: [{prompt: index or {raw, label}, test: index}], timeout}} -> {id, ok: [row or null, ...]}
// and {id, error} for either. The files that a config names are found from the working folder.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { extname, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const reply = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr); // the user's code may print

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

// Pairs of one evaluation are kept apart by the `prompts` of a test, which old versions do not know.
async function checkVersion() {
  let calls = 0;
  const listener = async () => ({ error: `${++calls}` });
  const tests = ['a', 'b'].map((one) => ({ vars: { one }, prompts: [one] }));
  const prompts = ['a', 'b'].map((one) => ({ raw: one, label: one }));
  await promptfoo.evaluate({ prompts, tests, providers: [listener] }, { cache: false });
  if (calls !== 2) throw new Error(`promptfoo ${version()} is too old; asktell needs 0.121.15 or newer: npm install promptfoo@latest`);
}

// What is wrong with this version of Node; null if promptfoo supports it.
function unsupported() {
  const range = require('./package.json').engines?.node ?? '';
  const mine = process.versions.node.split('.').map(Number);
  const fits = (part) => {
    const [, sign, ...numbers] = /^(\^|>=) ?(\d+)\.(\d+)\.(\d+)$/.exec(part.trim()) ?? [];
    if (!sign) return true;
    const at = mine.findIndex((number, index) => number !== Number(numbers[index]));
    return (at < 0 || mine[at] > Number(numbers[at])) && (sign === '>=' || at !== 0);
  };
  return range.split('||').some(fits) ? null : `promptfoo ${version()} needs Node ${range}, and this is ${process.versions.node}`;
}

async function read(path) {
  const extension = extname(path);
  if (!['.yaml', '.yml', '.json'].includes(extension)) {
    const module = await import(pathToFileURL(resolve(path)).href);
    return module.default ?? module;
  }
  const found = require('js-yaml').load(readFileSync(path, 'utf8'));
  if (!found || typeof found !== 'object') throw new Error(`${path} holds no promptfoo config`);
  if (found.config && found.results) return found.config; // what `promptfoo export` wrote
  if (!JSON.stringify(found).includes('"$ref"')) return found;
  const parser = await import(pathToFileURL(require.resolve('@apidevtools/json-schema-ref-parser')).href);
  return parser.dereference(found);
}

async function findProvider(entries, wanted) {
  const found = [];
  for (const entry of entries) {
    const loaded = async () => (await suite({ providers: [entry], env: config.env })).providers;
    (await loaded()).forEach((one, nth, all) => {
      // Afresh for each batch, since promptfoo shuts down what it has used.
      const load = async () => (all.length === 1 ? unfiltered(entry) : (await loaded())[nth]);
      found.push({ id: one.id(), label: one.label || one.id(), prompts: entry.prompts, load });
    });
  }
  const fitting = found.filter(({ id, label }) => wanted == null || wanted === id || wanted === label);
  if (fitting.length !== 1) {
    const names = found.map(({ label }) => JSON.stringify(label)).join(', ') || 'none';
    throw new Error(wanted == null || fitting.length > 1
      ? `asktell evaluates one provider at a time; name one by its label, provider=... (asktell init --model): the config has ${names}`
      : `the config has no provider ${JSON.stringify(wanted)}, but ${names}`);
  }
  return fitting[0];
}

const unfiltered = (entry) => (typeof entry === 'object' ? { ...entry, prompts: undefined } : entry);

// As promptfoo: by label, or by the part of it before a colon.
function allowed(references, label) {
  return references === undefined || references.some((reference) =>
    label === reference || label.startsWith(`${reference.replace(/:?\*$/, '')}:`));
}

// The suite as promptfoo reads it: files, globs, spreadsheets and functions become prompts and tests.
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
    if (path?.startsWith('file://')) { // promptfoo's library, unlike its command, does not read these
      const parts = (await suite({ prompts: [path] })).prompts;
      const label = (part) => (parts.length === 1 ? entry.label : `${entry.label}: ${part.label}`);
      found.push(...parts.map((part) => ({ ...part, config: entry.config, label: entry.label ? label(part) : part.label })));
    } else {
      found.push(...(await suite({ prompts: [entry] })).prompts);
    }
  }
  return found;
}

// Every test with the defaults in it, one for each combination of its variables: what promptfoo hands a provider.
async function readTests() {
  const { nunjucksFilters: _, ...part } = given();
  const read = await suite(part);
  const scenarios = (read.scenarios ?? []).flatMap(({ config, tests }) => [config ?? [], tests ?? []].flat());
  for (const test of [read.defaultTest ?? {}, ...read.tests, ...scenarios]) check(test);
  const found = [];
  const listener = async (_, { test }) => {
    found.push(test);
    return { error: 'asktell has read the test' }; // so that no assertion is run
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
  const env = code ? config.env : { ...config.env, PROMPTFOO_DISABLE_JSON_AUTOESCAPE: 'true' }; // goes before the process's
  return { tests, scenarios, defaultTest, env, nunjucksFilters };
}

function check(test) {
  const name = `the test ${JSON.stringify(test.description ?? test.vars ?? 'defaultTest')}`;
  for (const key of ['prompts', 'provider', 'providers', 'providerOutput']) {
    if (test[key] !== undefined) throw new Error(`${name} has \`${key}\`: asktell chooses what is evaluated with what`);
  }
  if (test.options?.storeOutputAs) throw new Error(`${name} has \`storeOutputAs\`: asktell evaluates tests in any order`);
  const program = code ? undefined : Object.values(Object(test.vars)).flat().find(isProgram);
  if (program) throw new Error(`${name} has the variable ${JSON.stringify(program)}, a program that promptfoo would run. ${CURE}`);
  const other = leaves(test).find(({ type }) => type === 'select-best' || type === 'max-score');
  if (other) throw new Error(`${name} asserts ${other.type}, which compares several prompts: asktell scores them one by one`);
}

const CURE = 'If nobody but you writes prompts and tests, allow it: prompts_are_code=True (in a configuration: prompts_are_code = true in [evaluator])';

// promptfoo runs these for a value; a pattern may match such a file.
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
    if (more) throw new Error(`${name} has ${JSON.stringify(more[0])}: besides variables, as in {{name}}, a prompt is text. ${CURE}`);
  }
}

// Prompts as data: their variables are filled in here, and nunjucks finds nothing to evaluate in what promptfoo gets.

const VARIABLE = /\{\{\s*((?!env\b)[A-Za-z_]\w*(?:\.\w+)*)\s*\}\}/g; // `env` has the keys of APIs

function asData({ raw, config, function: make }, { options: { prefix = '', suffix = '' } }) {
  const rendered = (text, vars) => literal(withVariables(text, resolved(vars)));
  return {
    raw: 'asktell', // promptfoo would fetch langfuse:// and the like
    config,
    async function(context) {
      if (!make) return rendered(prefix + raw + suffix, context.vars);
      const made = await make(context);
      const { prompt, config } = made?.prompt === undefined ? { prompt: made } : made;
      return { prompt: rendered(typeof prompt === 'string' ? prompt : JSON.stringify(prompt), context.vars), config };
    },
  };
}

// As promptfoo: in the strings of what is JSON, or else in the text.
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

// As promptfoo: variables within variables, some levels deep.
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

// A template that renders as the text.
const literal = (text) => text.replace(/\{(?=[{%#])|(?<=#)\}/g, (brace) => `{{ '${brace}' }}`);

function leaves(test) {
  return (test.assert ?? []).flatMap((one) => (one.type === 'assert-set' ? [one, ...one.assert] : [one]));
}

// Whether an assertion's score may be any number: it runs code, and what that gives is not seen to be true or false.
function isUnbounded({ type, value }, test) {
  if (!/^(not-)?(javascript|python|ruby|webhook)$/.test(type ?? '')) return false;
  if (!type.endsWith('javascript') || typeof value !== 'string' || value.startsWith('file://')) return true;
  try {
    const body = value.includes('\n') ? value : `return ${value}`; // as promptfoo reads it
    return typeof new Function('output', 'context', body)('an answer', { vars: test.vars ?? {}, prompt: '' }) !== 'boolean';
  } catch {
    return true;
  }
}

async function evaluate({ pairs, timeout }) {
  // One evaluation for all pairs, each with a prompt of its own: promptfoo cannot run two evaluations at once.
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

// Providers hold circular things; promptfoo names them by their id.
const plain = (_, value) => (typeof value?.callApi === 'function' ? value.id() : value);

const requests = createInterface({ input: process.stdin });
requests.on('close', () => process.exit()); // whoever asked is gone
for await (const line of requests) {
  const { id, ...request } = JSON.parse(line);
  let outcome;
  try {
    outcome = JSON.stringify({ id, ok: request.open ? await open(request.open) : await evaluate(request.evaluate) }, plain);
  } catch (error) {
    outcome = JSON.stringify({ id, error: String(error?.message ?? error) });
  }
  reply(`\n${outcome}\n`); // a line of its own, whatever a child process has written to the same pipe
}
