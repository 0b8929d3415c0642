// Best segmentations of many texts that begin at one place.
#include <algorithm>

#include "cdec_native.h"

extern "C" {

int64_t cdec_best_ways(cdec_i32 sources, cdec_f64 scores, cdec_i64 offsets, cdec_f64 crossing,
                       cdec_f64_out best) {
  for (int64_t text = 1; text < best.size; ++text) {
    double most = crossing[text];
    const int64_t last = std::min(offsets[text + 1], sources.size);
    for (int64_t way = std::max<int64_t>(offsets[text], 0); way < last; ++way) {
      const int64_t source = sources[way];
      if (source >= 0 && source < text) most = std::max(most, scores[way] + best[source]);
    }
    best[text] = most;
  }
  return 0;
}

}  // extern "C"
