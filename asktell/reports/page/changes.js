// What may be changed from a page that is served to who may: prompts retired and added, the budget extended, all paused.

/** Have something done; it throws with the words of a refusal. */
async function changeStudy(what, body) {
  const answer = await sent(`${document.documentElement.dataset.change}/${what}`, {
    method: "POST", credentials: "same-origin", cache: "no-store",
    headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
  if (answer.status === 401) location.reload();
  if (!answer.ok) throw new Error((await answer.json()).detail);
}

/** A request's answer; who sent it learns in words that there is none. */
async function sent(address, request) {
  try {
    return await fetch(address, request);
  } catch {
    throw new Error("The service is unreachable. Try again later.");
  }
}

/** A dialog of one change. `fields` are its controls; `made` gives the address and body of the request, or throws. */
function dialogOf(title, fields, made) {
  const words = element("p", { role: "alert" });
  const send = element("button", { type: "submit" }, title);
  const close = element("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  let key = "", sending = false; // it stays enabled: a button that is not loses the focus

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
    key = `page ${Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(16)).join("")}`; // one per opening: sent twice, it is done once
    words.textContent = "";
    form.reset();
    dialog.showModal();
  };
  return [element("button", { type: "button", onclick: open }, `${title}…`), dialog];
}

function field(text, attributes = {}) {
  return labelled(text, element("input", { required: true, autocomplete: "off", ...attributes }));
}

/** The button that pauses a study, or has it go on; `fit` makes it that of a state, `told` hears of a change. Nothing where nothing may be changed. */
function pauseButton(data, told) {
  if (!document.documentElement.dataset.change) return null;
  const words = element("span", { role: "alert", class: "soft" });
  const button = element("button", { type: "button", onclick: press });
  let paused = false, sending = false;

  function fit(state) {
    ({ paused } = state);
    button.textContent = paused ? "Resume" : "Pause";
    button.title = paused ? "Hand out trials again" : "Hand out no trials until it is resumed; pending ones may still be told";
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

/** Buttons for what may be changed; none where nothing may be. */
function changeButtons(data) {
  if (!document.documentElement.dataset.change) return [];
  const candidates = data.prompts.ids.filter((_, arm) => !isGone(data, arm));
  const ids = element("datalist", { id: "prompt-ids" }, candidates.map((value) => element("option", { value })));
  const prompt = field("Its id", { list: ids.id }), reason = field("Why"), id = field("Its id");
  const text = labelled("Its text", element("textarea", { required: true, rows: 6, cols: 60 }));
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
