// In the place of an LLM, so that the example runs without one: it goes by words, and chats when it is allowed to.
module.exports = class {
  id() {
    return 'stand-in';
  }

  async callApi(prompt, { vars }) {
    const thinks = /think/i.test(prompt);
    const good = thinks ? /joy|good,|not bad|wonderful/i : /joy|good|wonderful/i;
    const word = good.test(vars.review) ? 'positive' : 'negative';
    const output = thinks ? `The words that matter here lead me to say: ${word}` : /one word/.test(prompt) ? word : `It is ${word}.`;
    const count = (text) => text.split(/\s+/).length;
    const tokenUsage = { prompt: count(prompt), completion: count(output), total: count(prompt) + count(output) };
    return { output, tokenUsage, cost: tokenUsage.total * 1e-6 };
  }
};
