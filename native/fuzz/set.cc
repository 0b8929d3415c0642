// Walks over the trie of a damaged set.
#include "forged.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::Bytes bytes(data, size);
  fuzz::seed().forge(bytes, bytes.read<uint8_t>() % 16);
  const auto *trie = fuzz::seed().get<cdec_trie>(0);
  const int64_t words = (trie->width + 31) / 32;
  std::vector<uint32_t> mask(words);
  for (int64_t state = 0, steps = 0; steps < 64 && !bytes.empty(); ++steps) {
    int64_t token = bytes.read<uint16_t>(), next = 0, offsets[2] = {0, 0};
    int32_t only = 0;
    uint8_t allowed = 0;
    cdec_trie_fill_mask(trie, {&state, 1}, {mask.data(), 1, words});
    cdec_trie_count_allowed(trie, {&state, 1}, {offsets, 2});
    std::vector<int32_t> ids(offsets[1]);
    cdec_trie_fill_allowed(trie, {&state, 1}, {offsets, 2}, {ids.data(), offsets[1]});
    if (!ids.empty() && token % 4) token = ids[token % ids.size()];
    cdec_trie_check(trie, {&state, 1}, {&token, 1, 1}, {&allowed, 1, 1});
    cdec_trie_complete(trie, {&state, 1}, {&allowed, 1});
    cdec_trie_forced(trie, {&state, 1}, {&only, 1});
    cdec_trie_advance(trie, {&state, 1}, {&token, 1}, {&next, 1});
    state = next < 0 ? bytes.read<int64_t>() : next;
  }
  return 0;
}
