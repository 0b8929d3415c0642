// What packed masks allow, as lists.
#include "bits.h"

extern "C" {

int64_t cdec_count_bits(cdec_u32_rows mask, cdec_i64_out offsets) {
  int64_t total = offsets[0] = 0;
  for (int64_t i = 0; i < mask.rows; ++i) {
    for (int64_t word = 0; word < mask.width; ++word) total += std::popcount(mask[i][word]);
    offsets[i + 1] = total;
  }
  return total;
}

int64_t cdec_list_bits(cdec_u32_rows mask, cdec_i64 offsets, cdec_i32_out ids) {
  for (int64_t i = 0; i < mask.rows; ++i) {
    int64_t at = offsets[i];
    for (int64_t word = 0; word < mask.width; ++word)
      for (uint32_t bits = mask[i][word]; bits && at < ids.size; bits &= bits - 1)
        ids[at++] = static_cast<int32_t>(word * 32 + std::countr_zero(bits));
  }
  return 0;
}

int64_t cdec_find_only(cdec_u32_rows mask, cdec_i64 end_ids, cdec_i32_out out) {
  for (int64_t i = 0; i < mask.rows; ++i) {
    int64_t events = 0, only = -1;
    for (int64_t e = 0; e < end_ids.size && events == 0; ++e)
      if (end_ids[e] >= 0 && cdec::has_bit(mask[i], mask.width, end_ids[e]))
        events = 1, only = end_ids[e];
    for (int64_t word = 0; word < mask.width && events <= 1; ++word)
      for (uint32_t bits = mask[i][word]; bits; bits &= bits - 1) {
        const int64_t token = word * 32 + std::countr_zero(bits);
        if (!cdec::contains(end_ids, token)) ++events, only = token;
      }
    out[i] = events == 1 ? static_cast<int32_t>(only) : -1;
  }
  return 0;
}

}  // extern "C"
