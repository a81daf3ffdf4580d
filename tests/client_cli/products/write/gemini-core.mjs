// Writes files with the classes that Gemini CLI records a chat with. Arguments: a new folder, the
// version of @google/gemini-cli-core, and the folder node_modules in which it is installed.
import path from 'node:path';
import { randomUUID } from 'node:crypto';
const [folder, version, modules] = process.argv.slice(2);
const core = path.join(modules, '@google/gemini-cli-core/dist/src');
const { ChatRecordingService } = await import(path.join(core, 'services/chatRecordingService.js'));
const { Logger } = await import(path.join(core, 'core/logger.js'));
const isOld = version === '0.9.0';
const promptId = `5e1f0000-0000-4000-8000-00000000000${isOld ? 1 : 0}`;
const storage = { getProjectTempDir: () => folder, initialize: async () => {} };
const toolRegistry = { getTool: () => undefined };
const config = {
  storage,
  getProjectRoot: () => '/home/kim/garden',
  getSessionId: () => promptId,
  getToolRegistry: () => toolRegistry,
};
const service = new ChatRecordingService(isOld ? config : { config, toolRegistry, promptId });
await service.initialize();
const model = 'gemini-2.5-pro';
const ask = (content) => service.recordMessage({ type: 'user', content, model });
const answer = (content) => service.recordMessage({ type: 'gemini', content, model });
const response = { functionResponse: { id: 'look-1', name: 'look', response: { output: '12 m' } } };
if (isOld) {
  ask('Which tree grows fastest?');
  service.recordThought({ subject: 'Comparing trees', description: 'Two of them are fast.' });
  service.recordMessageTokens({ promptTokenCount: 20, candidatesTokenCount: 3 });
  answer('The poplar.');
  const call = { id: 'look-1', name: 'look', args: { at: 'the poplar' }, status: 'success' };
  service.recordToolCalls(model, [{ ...call, timestamp: new Date(), result: [response] }]);
  service.recordMessage({ type: 'info', content: 'Request cancelled.' });
} else {
  ask([{ text: 'Name the first tree.' }]);
  answer('Ash.');
  const taken = ask([{ text: 'Name it oak instead.' }]);
  answer('Oak.');
  service.rewindTo(taken);
  ask([{ text: 'And the second?' }]);
  answer('Beech.');
  // As `/compress` goes on: with a summary, and with copies of the newest messages.
  const turn = (role, text) => ({ id: randomUUID(), content: { role, parts: [{ text }] } });
  service.updateMessagesFromHistory([
    turn('user', '<state_snapshot>Ash is the first tree.</state_snapshot>'),
    turn('model', 'Got it.'),
    turn('user', 'And the second?'),
    turn('model', 'Beech.'),
  ]);
  ask([{ text: 'And the third?' }]);
  answer('Cedar.');
  service.saveSummary('Names of trees');
  const logger = new Logger(promptId, storage);
  await logger.initialize();
  await logger.logMessage('user', 'Name the first tree.');
  const content = (role, ...parts) => ({ role, parts });
  const history = [
    content('user', { text: '<session_context>\nThe garden has trees.\n</session_context>' }),
    content('user', { text: 'How tall is the ash?' }),
    content(
      'model',
      { text: 'I look.', thought: true },
      { functionCall: { name: 'look', args: { at: 'the ash' } } },
    ),
    content('user', { functionResponse: { name: 'look', response: { output: '9 m' } } }),
    content('model', { text: 'It is 9 m tall.' }),
  ];
  await logger.saveCheckpoint({ history }, 'ash & co');
}
