// Changes that a served page offers to readers with permission: retire and add prompts, extend the budget, pause.

/** Send a change. Throws an error with the service's message if it is refused. */
async function changeStudy(what, body) {
  const answer = await sent(`${document.documentElement.dataset.change}/${what}`, {
    method: "POST", credentials: "same-origin", cache: "no-store",
    headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
  if (answer.status === 401) location.reload();
  if (!answer.ok) throw new Error((await answer.json()).detail);
}

/** The response of a request. Throws an error with a readable message if there is none. */
async function sent(address, request) {
  try {
    return await fetch(address, request);
  } catch {
    throw new Error("The service is unreachable. Try again later.");
  }
}

/** A dialog for one change. `fields` are its controls, and `made` returns the address and body of the request, or throws. */
function dialogOf(title, fields, made) {
  const words = element("p", { role: "alert" });
  const send = element("button", { type: "submit" }, title);
  const close = element("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  let key = "", sending = false; // the button is not disabled meanwhile, because it would lose the focus

  async function submit(event) {
    event.preventDefault();
    if (sending) return;
    sending = true;
    try {
      const [what, body] = made();
      await changeStudy(what, { ...body, key });
      dialog.close();
    } catch (error) {
      words.textContent = error.message;
    }
    sending = false;
  }

  const form = element("form", { onsubmit: submit }, element("h2", {}, title), fields, words, element("div", { class: "controls" }, send, close));
  const dialog = element("dialog", { "aria-label": title }, form);
  const open = () => {
    key = `page ${Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(16)).join("")}`; // one per opening, so that a change that is sent twice is made once
    words.textContent = "";
    form.reset();
    dialog.showModal();
  };
  return [element("button", { type: "button", onclick: open }, `${title}…`), dialog];
}

function field(text, attributes = {}) {
  return labelled(text, element("input", { required: true, autocomplete: "off", ...attributes }));
}

/**
 * The button that pauses or resumes a study, null if the page may not change it. `told` is called after a change. The
 * returned `fit` adapts the button to a state.
 */
function pauseButton(data, told) {
  if (!document.documentElement.dataset.change) return null;
  const words = element("span", { role: "alert", class: "soft" });
  const button = element("button", { type: "button", onclick: press });
  let paused = false, sending = false;

  function fit(state) {
    ({ paused } = state);
    button.textContent = paused ? "Resume" : "Pause";
    button.title = paused ? "Hand out trials again" : "Assign no trials until the study is resumed. Scores of pending trials are still recorded.";
    button.hidden = state.done && !paused;
  }

  async function press() {
    if (sending) return;
    sending = true;
    words.textContent = "";
    try {
      await changeStudy(paused ? "resume" : "pause", {});
      fit({ paused: !paused, done: false });
      told(paused);
    } catch (error) {
      words.textContent = error.message;
    }
    sending = false;
  }

  fit(data);
  return { nodes: [button, words], fit };
}

/** Buttons for all changes, none if the page may not change the study. */
function changeButtons(data) {
  if (!document.documentElement.dataset.change) return [];
  const candidates = data.prompts.ids.filter((_, arm) => !isGone(data, arm));
  const ids = element("datalist", { id: "prompt-ids" }, candidates.map((value) => element("option", { value })));
  const prompt = field("Id of the prompt", { list: ids.id }), reason = field("Reason"), id = field("Id of the prompt");
  const text = labelled("Text of the prompt", element("textarea", { required: true, rows: 6, cols: 60 }));
  const more = field("More evaluations", { type: "number", min: 1, step: 1, required: false });
  const cost = data.max_cost === null ? null : field("More cost", { type: "number", min: 0, step: "any", required: false });
  const value = (label) => label.querySelector("input, textarea").value;
  const amount = (name, label) => (label && value(label) ? { [name]: Number(value(label)) } : {});
  const idOf = (shown) => (data.prompts.numbered && /^\d+$/.test(shown) ? Number(shown) : shown);
  return [
    dialogOf("Retire a prompt", [prompt, ids, reason], () => ["retire", { prompt: idOf(value(prompt)), reason: value(reason) }]),
    dialogOf("Add a prompt", [data.prompts.numbered ? null : id, text], () => ["add", { prompts: data.prompts.numbered ? [value(text)] : { [value(id)]: value(text) } }]),
    dialogOf("Extend the budget", [more, cost], () => ["extend", { ...amount("evaluations", more), ...amount("cost", cost) }]),
  ];
}
