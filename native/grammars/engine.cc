#include "engine.h"

namespace cdec::grammars {

Memos::Memos(Engine &engine)
    : parser(engine.grammar, engine.memory, engine.stacks, engine.indents, engine.work),
      recogniser(engine.grammar, engine.stacks, engine.indents, parser),
      lists(engine.stored, &engine.memory.memos),
      partial(engine.grammar, engine.memory, engine.stacks, engine.indents, parser, lists,
              engine.work),
      automaton(engine.grammar, engine.memory, engine.tree_state, engine.trees, engine.stacks,
                engine.indents, recogniser, lists, partial, engine.work, engine.misses),
      masks(engine.grammar, engine.memory, engine.settings.at_once, engine.trees, engine.stacks,
            engine.indents, parser, recogniser, automaton, engine.work),
      set_masks(engine.grammar, engine.memory, engine.tokens, engine.stacks, parser, recogniser,
                masks, engine.work) {}

Engine::Engine(const cdec_grammar &columns, const cdec_grammar_settings &given, cdec_i32 tree_state,
               cdec_i64 loop_state, cdec_i64 end_ids)
    : settings(given),
      grammar(columns, settings, loop_state),
      tree_state(tree_state),
      end_ids(end_ids),
      memory(settings.most_bytes),
      work(settings.pause_at, settings.stop_at),
      stacks(memory, work),
      indents(grammar, stacks),
      stored(grammar, settings.stored_lists, &memory.all),
      trees(grammar) {
  drop();
}

void Engine::drop() {
  memos.reset();
  stacks.forget_unions();
  memos.emplace(*this);
  aim();
  least_bytes_ = memory.memos.bytes();
  ++epoch;
}

}  // namespace cdec::grammars
