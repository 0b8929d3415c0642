// Masks and steps kept and asked for, and best segmentations over tables of any numbers.
#include "forged.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::Bytes bytes(data, size);
  const int64_t words = bytes.read<uint8_t>() % 4;
  auto *memo = cdec_memo_make(words, bytes.read<uint8_t>() % 8, bytes.read<uint8_t>() % 8);
  std::vector<int32_t> mask(words);
  int64_t missing[1];
  for (int64_t steps = 0; memo && steps < 64 && !bytes.empty(); ++steps) {
    const int64_t state = bytes.read<int8_t>(), token = bytes.read<int8_t>();
    int64_t after = bytes.read<int64_t>();
    switch (bytes.read<uint8_t>() % 6) {
      case 0: cdec_memo_fill_mask(memo, {&state, 1}, {mask.data(), 1, words}, {missing, 1}); break;
      case 1: cdec_memo_keep_masks(memo, {&state, 1}, {mask.data(), 1, words}); break;
      case 2: cdec_memo_keep_steps(memo, {&after, 1}, {&token, 1}, {&state, 1}); break;
      case 3: cdec_memo_keep_steps(memo, {&state, 1}, {&token, 1}, {&after, 1}); break;
      case 4: cdec_memo_advance(memo, {&state, 1}, {&token, 1}, {&after, 1}, {missing, 1}); break;
      default: cdec_memo_bytes(memo) > 1 << 12 ? cdec_memo_drop(memo) : 0;
    }
  }
  cdec_memo_free(memo);

  const int64_t texts = bytes.read<uint8_t>() % 8, ways = bytes.read<uint8_t>() % 8;
  std::vector<int32_t> sources(ways);
  std::vector<int64_t> offsets(texts + 1);
  std::vector<double> scores(ways), crossing(texts), best(texts);
  for (auto &source : sources) source = bytes.read<int8_t>();
  for (auto &offset : offsets) offset = bytes.read<int8_t>();
  cdec_best_ways({sources.data(), ways}, {scores.data(), ways}, {offsets.data(), texts + 1},
                 {crossing.data(), texts}, {best.data(), texts});
  return 0;
}
