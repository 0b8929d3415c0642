// Any tokens and bytes after each other under a schema, whose columns Python has checked, also with
// numbers of tokens, and as spellings allow them.
#include "forged.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::Bytes bytes(data, size);
  fuzz::Arguments &seed = fuzz::seed();
  seed.forge(bytes, 0);
  const auto *schema = seed.get<cdec_schema>(0);
  auto *engine = cdec_schema_engine_make(
      schema, seed.get<cdec_token_trie>(1), seed.get<cdec_token_trie>(2),
      seed.get<cdec_token_trie>(3), seed.get<cdec_token_trie>(4), seed.get<cdec_json_tokens>(5),
      *seed.get<cdec_i64>(6), *seed.get<int64_t>(7), *seed.get<int64_t>(8));
  if (!engine) return 0;
  const int64_t vocabulary = schema->vocabulary_offsets.size - 1, words = (vocabulary + 31) / 32;
  const uint8_t how = bytes.read<uint8_t>();
  const int64_t strings = schema->string_start.size;
  const std::vector<int32_t> most = fuzz::budgets(bytes, strings);
  if (how & 1) cdec_schema_engine_add_budgets(engine, {most.data(), strings});
  for (int64_t string = 0, fewest = 0; (how & 1) && string < strings; ++string)
    cdec_schema_engine_fewest_of_strings(engine, {&string, 1}, {&fewest, 1});
  std::vector<int32_t> mask(words);
  int64_t state = cdec_schema_engine_start(engine);
  for (int64_t steps = 0; state >= 0 && steps < 64 && !bytes.empty(); ++steps) {
    int64_t token = bytes.read<uint16_t>(), next = -1, offsets[2] = {0, 1};
    uint8_t allowed = 0, byte = bytes.read<uint8_t>();
    cdec_schema_engine_fill_mask(engine, {&state, 1}, {mask.data(), 1, words});
    token = fuzz::chosen(token, mask, vocabulary);
    cdec_schema_engine_check(engine, {&state, 1}, {&token, 1, 1}, {&allowed, 1, 1});
    cdec_schema_engine_complete(engine, {&state, 1}, {&allowed, 1});
    cdec_schema_engine_advance_bytes(engine, {&state, 1}, {&byte, 1}, {offsets, 2}, {&next, 1});
    if (next < 0) cdec_schema_engine_advance(engine, {&state, 1}, {&token, 1}, {&next, 1});
    state = next;
  }
  if (how & 2) {
    fuzz::Told told(words);
    const cdec_product_settings settings{how & 4, 8, 4, 64};
    auto *product = cdec_product_of_schema(engine, told.get(), &settings);
    told.walk(product, bytes, cdec_schema_engine_start(engine), vocabulary);
    cdec_product_free(product);
  }
  cdec_schema_engine_free(engine);
  return 0;
}
