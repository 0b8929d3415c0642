// Texts followed and masked by the engine of a damaged grammar, also with numbers of tokens, and as
// spellings allow them.
#include "forged.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::Bytes bytes(data, size);
  fuzz::Arguments &seed = fuzz::seed();
  seed.forge(bytes, bytes.read<uint8_t>() % 16, 5);
  const auto *grammar = seed.get<cdec_grammar>(0);
  auto *engine = cdec_grammar_engine_make(grammar, seed.get<cdec_grammar_settings>(1),
                                          *seed.get<cdec_i32>(2), *seed.get<cdec_i64>(3),
                                          *seed.get<cdec_i64>(4));
  if (!engine) return 0;
  const int64_t vocabulary = grammar->vocabulary_offsets.size - 1, words = (vocabulary + 31) / 32;
  const uint8_t how = bytes.read<uint8_t>();
  const std::vector<int32_t> most = fuzz::budgets(bytes, grammar->ignored.size);
  if (how & 1)
    cdec_grammar_engine_add_budgets(engine, {most.data(), grammar->ignored.size},
                                    seed.get<cdec_token_trie>(5));
  for (int64_t terminal = 0; (how & 1) && terminal < grammar->ignored.size; ++terminal)
    cdec_grammar_fewest_of_terminal(engine, terminal);
  const int64_t rules = grammar->rule_lhs.size, lr_states = grammar->action_offsets.size - 1;
  const std::vector<int32_t> of_rules = fuzz::budgets(bytes, rules);
  const std::vector<int32_t> of_states = fuzz::budgets(bytes, lr_states);
  if (how & 8)
    cdec_grammar_engine_add_rule_budgets(engine, {of_rules.data(), rules},
                                         {of_states.data(), lr_states}, how & 16,
                                         seed.get<cdec_token_trie>(5));
  auto *session = cdec_grammar_session_make(engine, words, 1 << 10);
  std::vector<int32_t> mask(words);
  int64_t state = session ? cdec_grammar_start(session) : -1;
  for (int64_t steps = 0; state >= 0 && steps < 32 && !bytes.empty(); ++steps) {
    int64_t token = bytes.read<uint16_t>(), next = -1;
    uint8_t allowed = 0;
    cdec_grammar_fill_mask(session, {&state, 1}, {mask.data(), 1, words}, 0);
    token = fuzz::chosen(token, mask, vocabulary);
    cdec_grammar_check(session, {&state, 1}, {&token, 1, 1}, {&allowed, 1, 1}, 0);
    cdec_grammar_complete(session, {&state, 1}, {&allowed, 1}, 0);
    cdec_grammar_fewest(session, {&state, 1}, seed.get<cdec_token_trie>(5), {&next, 1}, 0);
    cdec_grammar_advance(session, {&state, 1}, {&token, 1}, {&next, 1}, 0);
    state = next;
  }
  if (session && how & 2) {
    fuzz::Told told(words);
    const cdec_product_settings settings{how & 4, 8, 4, 64};
    auto *product = cdec_product_of_grammar(session, told.get(), &settings);
    told.walk(product, bytes, cdec_grammar_start(session), vocabulary);
    cdec_product_free(product);
  }
  if (session) cdec_grammar_session_free(session);
  cdec_grammar_engine_free(engine);
  return 0;
}
