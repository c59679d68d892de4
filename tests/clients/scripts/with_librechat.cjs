// One turn of LibreChat's agents over each protocol; NODE_PATH has the package.
const { Providers, Run } = require('@librechat/agents');
const { HumanMessage } = require('@langchain/core/messages');
const { tool } = require('@langchain/core/tools');

const [url, model, question, result] = process.argv.slice(2);
const usual = { model, apiKey: 'dummy', streaming: true, temperature: 0 };
const protocols = {
  chat: { ...usual, provider: Providers.OPENAI, configuration: { baseURL: `${url}/v1` } },
  messages: { ...usual, provider: Providers.ANTHROPIC, clientOptions: { baseURL: url } },
};
const weather = tool(async () => result, {
  name: 'get_weather',
  description: 'Get the weather of a city',
  schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
});

(async () => {
  for (const [protocol, llmConfig] of Object.entries(protocols)) {
    const run = await Run.create({
      runId: protocol,
      graphConfig: { type: 'standard', llmConfig, tools: [weather], instructions: '' },
      returnContent: true,
    });
    const config = { configurable: { thread_id: protocol }, streamMode: 'values', version: 'v2' };
    const content = await run.processStream({ messages: [new HumanMessage(question)] }, config);
    const answer = content.filter((part) => part.type === 'text').map((part) => part.text).join('');
    console.log(JSON.stringify({ protocol, answer }));
  }
})();
