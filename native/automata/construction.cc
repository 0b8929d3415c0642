// What every construction has: a bounded run, and its result.
#include "construction.h"

#include "cdec_native.h"
#include "guarded.h"

extern "C" {

int64_t cdec_construction_run(cdec_construction *begun, const cdec_most *most, int64_t operations) {
  return cdec::guarded([&]() -> int64_t {
    const cdec_construction &now = *begun;
    while (!now.is_complete()) {
      if ((now.lists.size() + now.width + 1) * now.width > most->numbers) return CDEC_TOO_LARGE;
      if (operations <= 0) return CDEC_UNDER_WAY;
      operations -= begun->step();
      if (now.lists.size() > most->lists || now.lists.item_count() > most->items)
        return CDEC_TOO_LARGE;
    }
    return CDEC_COMPLETE;
  });
}

int64_t cdec_construction_sizes(cdec_construction *complete, cdec_i64_out sizes) {
  const int64_t found[] = {complete->lists.size(), complete->lists.item_count(), complete->rows};
  std::copy_n(found, std::min<int64_t>(sizes.size, 3), sizes.at);
  return complete->width;
}

int64_t cdec_construction_read(cdec_construction *complete, cdec_i64_out offsets, cdec_i32_out items,
                               cdec_i32_rows_out numbers) {
  int64_t at = 0;
  for (int64_t i = 0; i < std::min(complete->lists.size(), offsets.size - 1); ++i) {
    offsets[i] = at;
    for (const int32_t item : complete->lists[i])
      if (at < items.size) items[at++] = item;
    offsets[i + 1] = at;
  }
  const auto size = std::min<int64_t>(complete->numbers.size(), numbers.rows * numbers.width);
  std::copy_n(complete->numbers.begin(), size, numbers.at);
  return 0;
}

void cdec_construction_free(cdec_construction *begun) { delete begun; }

}  // extern "C"
