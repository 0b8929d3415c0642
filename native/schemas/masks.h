// Token masks of states.
//
// Within strings that may hold anything, most tokens are a row that is kept, and only those in which
// the string ends are walked; between values, what stands behind white space. So a mask is a row that
// many share, and the tokens that it has besides, or a row of its own.
#pragma once

#include "bits.h"
#include "states.h"

namespace cdec::schemas {

struct Vocabulary {
  const cdec_token_trie &whole, &crossing, &endings, &behind;  // of cdec.core.schemas.json_tokens
  const cdec_json_tokens &json;
};

class Masks {
 public:
  Masks(States &states, const Vocabulary &vocabulary, int64_t budget);

  // Writes the tokens that can follow in a state, ends left out.
  void write(int32_t state, uint32_t *words, int64_t width);
  void keep_within_budget() {
    if (memory_.bytes() > budget_) drop();
  }
  // Begins an epoch: forgets all masks, and gives back what they took.
  void drop();

  int64_t size() const { return static_cast<int64_t>(masks_.size()); }
  int64_t bytes() const { return memory_.bytes(); }

  int64_t hits = 0, misses = 0, epoch = 0;

 private:
  struct Mask {
    const uint32_t *base;  // a row of the vocabulary, or none
    std::pmr::vector<uint32_t> row;
    std::pmr::vector<int32_t> tokens;
  };
  // How far content goes that only the vocabulary decides.
  struct Content {
    int64_t row;     // of the vocabulary; -1 where only a walk can tell
    bool is_steady;  // escapes are as free, and what may stand behind the string is always the same
  };

  int32_t mask_of(int32_t state);
  int32_t new_mask(int32_t state);
  int32_t own_mask(int32_t state, int32_t shared);
  int32_t keep(const uint32_t *base, std::span<const uint32_t> row, std::span<const int32_t> tokens);
  const uint32_t *row_of(const Mask &mask) const { return mask.row.empty() ? mask.base : mask.row.data(); }
  void copy(const Mask &mask, uint32_t *words, int64_t width) const;

  // Where a string or key may go on with anything.
  int32_t state_like(int32_t state);
  bool is_far(const Item &item) const;
  Content free_content(int32_t state);
  int64_t free_string(const Item &item, bool &is_steady) const;

  // Walks of the tries.
  void walk(const cdec_token_trie &trie, int32_t state, const int32_t *run_ends);
  const int32_t *run_ends_of(int32_t blank);
  void add_blanks(const int32_t *run_ends);

  // Keys and strings that must be distinct: what no repetition decides is shared (repetitions.cc).
  int32_t forgetful_state(int32_t state);
  std::vector<int32_t> repetitions(int32_t state);
  void take_repetitions(int32_t state, uint32_t *words);
  void follow(int32_t state, uint32_t *words, int32_t text, int32_t remembered);
  int32_t child(int32_t first, int32_t last, int32_t byte) const;
  void step_below(int32_t state, uint32_t *words, int32_t first, int32_t last);

  States &states_;
  const Program &p;
  const Vocabulary v;
  const int64_t words_, longest_, budget_;
  int64_t far_;  // more characters than the longest token has, and fewest further ones
  CountedMemory memory_;
  std::pmr::vector<Mask> masks_;
  std::vector<int32_t> path_;   // of the walk under way: states by depth
  std::vector<int32_t> found_;  // and tokens
  std::vector<uint32_t> row_;   // of the mask that is made
  // Of states of blanks: where in run_ends_ stands what each run of white space leads to.
  std::vector<int32_t> run_index_, run_ends_;
};

}  // namespace cdec::schemas
