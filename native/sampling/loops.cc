// Texts that loop: for every period, how many bytes equal those a period before.
#include <algorithm>

#include "cdec_native.h"

namespace {

bool is_white(uint8_t byte) { return byte == 32 || (byte >= 9 && byte <= 13); }

// One growing text.
struct Text {
  uint8_t *recent;  // byte i at -i & 255 and 256 further, so that those before it stand behind it
  uint16_t *runs;
  cdec_u16 needed;

  // Takes the next byte, before which `seen` were; returns the period of the loop that it makes.
  int64_t take(int64_t seen, uint8_t byte) const {
    const int64_t longest = needed.size - 1, base = -seen & (longest - 1);
    const int64_t known = std::min(seen, longest);
    int hits = 0;
    for (int64_t period = 1; period <= known; ++period) {
      const uint16_t run = recent[base + period] == byte ? runs[period] + 1 : 0;
      runs[period] = run;
      hits += run >= needed[period];
    }
    runs[0] = is_white(byte) ? runs[0] + 1 : 0;
    recent[base] = recent[base + longest] = byte;
    if (runs[0] >= needed[0]) return 0;
    for (int64_t period = 1; hits && period <= known; ++period)
      if (runs[period] >= needed[period]) return period;
    return CDEC_NO_LOOP;
  }
};

}  // namespace

extern "C" {

int64_t cdec_loops_take(cdec_i64 walks, cdec_i64 tokens, cdec_u8 flat, cdec_i64 offsets,
                        const cdec_loops *states, cdec_u16 needed) {
  for (int64_t i = 0; i < walks.size; ++i) {
    const int64_t walk = walks[i], token = tokens[i];
    if (states->found[walk] != CDEC_NO_LOOP || token < 0 || token >= offsets.size - 1) continue;
    const Text text{states->recent[walk], states->runs[walk], needed};
    for (int64_t at = offsets[token]; at < offsets[token + 1]; ++at) {
      states->found[walk] = text.take(states->seen[walk]++, flat[at]);
      if (states->found[walk] != CDEC_NO_LOOP) break;
    }
  }
  return 0;
}

int64_t cdec_loops_find(cdec_u8 text, const cdec_loops *state, cdec_u16 needed,
                        cdec_i64_rows_out loops) {
  const Text here{state->recent[0], state->runs[0], needed};
  int64_t count = 0, seen = 0;
  for (int64_t at = 0; at < text.size && count < loops.rows;) {
    const int64_t period = here.take(seen, text[at]);
    ++at, ++seen;
    if (period == CDEC_NO_LOOP) continue;
    const int64_t first = at - period - here.runs[period];
    while (at < text.size && (period ? text[at] == text[at - period] : is_white(text[at]))) ++at;
    loops[count][0] = first;
    loops[count][1] = at - first;
    loops[count][2] = period;
    ++count;
    seen = 0;
    std::fill_n(here.runs, needed.size, uint16_t{0});
  }
  return count;
}

}  // extern "C"
