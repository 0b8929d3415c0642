// Both at once: the states of a constraint, and of what its tokenizer writes; with the dead ends.
//
// What it gives is what core/combine/conjunction.py gives of the two. A pair of states is stuck where
// all that it leads to are few, and none of them may end or allows many tokens. Whether it is depends
// on the pair alone. So a search may stop at the first that may end, and all on the way there are not
// stuck either; if it finds none, all that it saw are.
#include <unordered_map>

#include "guarded.h"
#include "memo.h"
#include "spelled.h"

namespace cdec::canonical {

// The session of the constraint: its calls, which may come back before all rows are done.
class Inner {
 public:
  virtual ~Inner() = default;
  virtual int64_t fill(cdec_i64 states, cdec_i32_rows_out mask) = 0;
  virtual int64_t advance(cdec_i64 states, cdec_i64 tokens, cdec_i64_out out) = 0;
  virtual int64_t complete(cdec_i64 states, cdec_bool_out out) = 0;

  // The states behind tokens of one state; how many are done.
  int64_t steps(int64_t state, std::span<const int64_t> tokens, int64_t *out) {
    states_.assign(tokens.size(), state);
    const auto count = static_cast<int64_t>(tokens.size());
    return count ? advance({states_.data(), count}, {tokens.data(), count}, {out, count}) : 0;
  }

 private:
  std::vector<int64_t> states_;
};

class InnerGrammar : public Inner {
 public:
  explicit InnerGrammar(cdec_grammar_session *session) : session_(session) {}
  int64_t fill(cdec_i64 states, cdec_i32_rows_out mask) override {
    return cdec_grammar_fill_mask(session_, states, mask, 0);
  }
  int64_t advance(cdec_i64 states, cdec_i64 tokens, cdec_i64_out out) override {
    return cdec_grammar_advance(session_, states, tokens, out, 0);
  }
  int64_t complete(cdec_i64 states, cdec_bool_out out) override {
    return cdec_grammar_complete(session_, states, out, 0);
  }

 private:
  cdec_grammar_session *session_;
};

class InnerSchema : public Inner {
 public:
  explicit InnerSchema(cdec_schema_engine *engine) : engine_(engine) {}
  int64_t fill(cdec_i64 states, cdec_i32_rows_out mask) override {
    return cdec_schema_engine_fill_mask(engine_, states, mask);
  }
  int64_t advance(cdec_i64 states, cdec_i64 tokens, cdec_i64_out out) override {
    return cdec_schema_engine_advance(engine_, states, tokens, out);
  }
  int64_t complete(cdec_i64 states, cdec_bool_out out) override {
    return cdec_schema_engine_complete(engine_, states, out);
  }

 private:
  cdec_schema_engine *engine_;
};

// What a state may lead to, where it allows few tokens.
struct Ways {
  std::vector<int64_t> tokens;  // ascending
  std::vector<int64_t> after;   // CDEC_DEAD, CDEC_DONE for an end, or a state; empty: not followed
};

class Product {
 public:
  Product(std::unique_ptr<Inner> inner, Spelled &spelled, const cdec_product_settings &settings)
      : inner_(std::move(inner)),
        spelled_(spelled),
        looks_ahead_(settings.looks_ahead),
        most_states_(settings.most_states),
        most_ways_(settings.most_states),
        words_(spelled.words()),
        memo_(spelled.words(), settings.most_masks, settings.most_steps),
        inner_mask_(spelled.words()) {}

  int64_t pair(int64_t left, int64_t right);
  int64_t size() const { return static_cast<int64_t>(lefts_.size()); }
  bool holds(int64_t state) const { return 0 <= state && state < size(); }
  std::pair<int64_t, int64_t> halves(int64_t state) const { return {lefts_[state], rights_[state]}; }
  // False where something has to be told.
  bool fill(int64_t state, int32_t *mask);
  bool step(int64_t state, int64_t token, int64_t &after);
  void know(int64_t state, bool is_stuck) { verdicts_[state] = is_stuck ? kYes : kNo; }
  void know_all(int64_t most_ways) {
    looks_ahead_ = true;
    most_ways_ = most_ways;
    std::ranges::fill(breadths_, kUnknown);
    ways_.clear();
    way_items_ = 0;
    memo_.drop();
  }
  int64_t words() const { return words_; }
  int64_t bytes() const {
    return memo_.bytes() + numbers_.bytes() +
           static_cast<int64_t>(lefts_.capacity() * 19 + way_items_ * 16 + ways_.size() * 64);
  }
  const Needed &needed() const { return needed_; }

  std::mutex mutex;

 private:
  enum : uint8_t { kUnknown, kNo, kYes };

  bool inner_mask(int64_t left, int32_t *mask);
  bool measure(int64_t state, const int32_t *mask);
  bool lists(const int32_t *mask, std::vector<int64_t> &tokens) const;
  bool follow(int64_t state, std::span<const int64_t> tokens, std::vector<int64_t> &after);
  bool read(int64_t state, Ways &ways);
  bool is_stuck(int64_t state, bool &is_stuck);
  bool may_end(int64_t state, bool &may_end);
  bool is_known(int64_t state, bool &is_open);
  bool search(int64_t root);

  std::unique_ptr<Inner> inner_;
  Spelled &spelled_;
  bool looks_ahead_;
  const int64_t most_states_;
  int64_t most_ways_;
  const int64_t words_;
  cdec_memo memo_;
  Table numbers_{std::pmr::get_default_resource()};  // both halves -> state
  std::vector<int64_t> lefts_, rights_;
  std::vector<uint8_t> breadths_;  // whether a state allows many tokens
  std::vector<uint8_t> verdicts_;  // whether it is stuck
  std::vector<uint8_t> is_asked_;  // whether its mask was asked for
  std::unordered_map<int64_t, Ways> ways_;
  int64_t way_items_ = 0;
  std::vector<int32_t> inner_mask_;
  std::vector<int64_t> asked_, inner_after_;   // tokens, and the states behind them
  std::vector<int64_t> behind_;
  Needed needed_;
};

int64_t Product::pair(int64_t left, int64_t right) {
  if (left > INT32_MAX) throw std::bad_alloc();
  const int64_t key = pack(left, right), known = numbers_.find(key);
  if (known != Table::kAbsent) return known;
  lefts_.push_back(left);
  rights_.push_back(right);
  breadths_.push_back(kUnknown);
  verdicts_.push_back(kUnknown);
  is_asked_.push_back(false);
  numbers_.set(key, size() - 1);
  return size() - 1;
}

// The states behind tokens: CDEC_DEAD, CDEC_DONE or pairs.
bool Product::follow(int64_t state, std::span<const int64_t> tokens, std::vector<int64_t> &after) {
  const auto [left, right] = halves(state);
  after.resize(tokens.size());
  {
    const std::lock_guard lock(spelled_.mutex);
    for (size_t i = 0; i < tokens.size(); ++i) {
      after[i] = spelled_.step(right, tokens[i], needed_);
      if (after[i] == kUntold) return false;
    }
  }
  asked_.clear();
  for (size_t i = 0; i < tokens.size(); ++i)
    if (after[i] != CDEC_DEAD) asked_.push_back(tokens[i]);
  inner_after_.resize(asked_.size());
  const int64_t done = inner_->steps(left, asked_, inner_after_.data());
  if (done < static_cast<int64_t>(asked_.size()))
    return needed_ = {kInnerStep, left, asked_[std::max<int64_t>(done, 0)]}, false;
  for (size_t i = 0, at = 0; i < tokens.size(); ++i) {
    if (after[i] == CDEC_DEAD) continue;
    const int64_t inner = inner_after_[at++], spelled = after[i];
    if (inner >= 0 && spelled >= 0)
      after[i] = pair(inner, spelled);
    else if (inner != CDEC_DONE || spelled != CDEC_DONE)
      after[i] = CDEC_DEAD;
  }
  return true;
}

// The mask of the constraint.
bool Product::inner_mask(int64_t left, int32_t *mask) {
  if (inner_->fill({&left, 1}, {mask, 1, words_}) == 1) return true;
  return needed_ = {kInnerMask, left, 0}, false;
}

// Finds whether a state allows many tokens, and otherwise which it may allow. `mask` is that of the
// constraint, or null.
bool Product::measure(int64_t state, const int32_t *mask) {
  if (breadths_[state] != kUnknown) return true;
  const auto [left, right] = halves(state);
  if (!mask) {
    if (!inner_mask(left, inner_mask_.data())) return false;
    mask = inner_mask_.data();
  }
  Ways ways;
  if (!lists(mask, ways.tokens)) {
    const std::lock_guard lock(spelled_.mutex);
    if (spelled_.allows_across(right, mask, most_ways_)) {
      breadths_[state] = kYes;
      return true;
    }
    if (mask != inner_mask_.data()) std::copy_n(mask, words_, inner_mask_.data());
    if (!spelled_.narrow(right, inner_mask_.data(), needed_)) return false;
    if (!lists(inner_mask_.data(), ways.tokens)) {
      breadths_[state] = kYes;
      return true;
    }
  }
  breadths_[state] = kNo;
  way_items_ += static_cast<int64_t>(ways.tokens.size());
  ways_[state] = std::move(ways);
  return true;
}

// Lists the tokens of a mask; false where they are many.
bool Product::lists(const int32_t *mask, std::vector<int64_t> &tokens) const {
  tokens.clear();
  for (int64_t word = 0; word < words_; ++word) {
    if (mask[word] == 0) continue;
    for (auto bits = static_cast<uint32_t>(mask[word]); bits; bits &= bits - 1)
      tokens.push_back(word * 32 + std::countr_zero(bits));
    if (static_cast<int64_t>(tokens.size()) > most_ways_) return false;
  }
  return true;
}

// Follows the tokens that a state may allow.
bool Product::read(int64_t state, Ways &ways) {
  if (ways.after.size() == ways.tokens.size()) return true;
  if (!follow(state, ways.tokens, behind_)) return false;
  ways.after = behind_;
  return true;
}

bool Product::is_stuck(int64_t state, bool &is_stuck) {
  if (verdicts_[state] == kUnknown && !search(state)) return false;
  is_stuck = verdicts_[state] == kYes;
  return true;
}

bool Product::may_end(int64_t state, bool &may_end) {
  const auto [left, right] = halves(state);
  {
    const std::lock_guard lock(spelled_.mutex);
    may_end = spelled_.may_end(right) && spelled_.has_ends();
  }
  if (!may_end) return true;
  uint8_t ends = 0;
  const bool is_done = inner_->complete({&left, 1}, {&ends, 1}) == 1;
  may_end = ends != 0;
  if (is_done) return true;
  return needed_ = {kInnerMask, left, 0}, false;  // with which ends are found
}

// Says whether a state is known to be open without a mask of the constraint.
bool Product::is_known(int64_t state, bool &is_open) {
  is_open = verdicts_[state] == kNo || breadths_[state] == kYes;
  return is_open || may_end(state, is_open);
}

bool Product::search(int64_t root) {
  struct Open {
    int64_t state;
    const Ways *ways;
    size_t next;  // of its tokens
  };
  std::vector<Open> path;
  std::vector<int64_t> seen;
  bool is_open = false;
  const auto enter = [&](int64_t state) {
    seen.push_back(state);
    path.push_back({state, nullptr, 0});
    if (!is_known(state, is_open)) return false;
    if (is_open) return true;
    if (!measure(state, nullptr)) return false;
    if ((is_open = breadths_[state] == kYes)) return true;
    Ways &ways = ways_[state];
    path.back().ways = &ways;
    if (!read(state, ways)) return false;
    // All are asked before one is gone into: steps take less than a mask of the constraint.
    for (size_t i = 0; i < ways.tokens.size() && !is_open; ++i) {
      is_open = ways.after[i] == CDEC_DONE;
      if (ways.after[i] >= 0 && !is_known(ways.after[i], is_open)) return false;
    }
    return true;
  };
  if (!enter(root)) return false;
  while (!path.empty() && !is_open) {
    Open &top = path.back();
    if (top.next == top.ways->tokens.size()) {
      path.pop_back();
      continue;
    }
    const int64_t after = top.ways->after[top.next++];
    if (after < 0 || std::ranges::count(seen, after)) continue;
    if (static_cast<int64_t>(seen.size()) == most_states_) {
      verdicts_[root] = kNo;
      return true;
    }
    if (!enter(after)) return false;
  }
  for (const Open &open : path) verdicts_[open.state] = kNo;
  if (!is_open)
    for (const int64_t state : seen) verdicts_[state] = kYes;
  return true;
}

bool Product::fill(int64_t state, int32_t *mask) {
  if (const int32_t *known = memo_.masks.find(state)) {
    std::copy_n(known, words_, mask);
    return true;
  }
  const auto [left, right] = halves(state);
  if (!looks_ahead_ || breadths_[state] != kNo) {
    if (!inner_mask(left, mask) || (looks_ahead_ && !measure(state, mask))) return false;
  }
  if (looks_ahead_ && breadths_[state] == kNo) {
    std::fill_n(mask, words_, 0);
    Ways &ways = ways_[state];
    if (!read(state, ways)) return false;
    for (size_t i = 0; i < ways.tokens.size(); ++i) {
      bool stuck = ways.after[i] == CDEC_DEAD;
      if (ways.after[i] >= 0 && !is_stuck(ways.after[i], stuck)) return false;
      if (!stuck) set_bit(reinterpret_cast<uint32_t *>(mask), ways.tokens[i]);
    }
  } else {
    const std::lock_guard lock(spelled_.mutex);
    if (!spelled_.narrow(right, mask, needed_)) return false;
  }
  // A mask that is new takes longer to keep than to make: those that are asked for again are kept.
  if (is_asked_[state]) memo_.keep_mask(state, mask);
  is_asked_[state] = true;
  return true;
}

bool Product::step(int64_t state, int64_t token, int64_t &after) {
  after = memo_.step(state, token);
  if (after != Table::kAbsent) return true;
  if (!follow(state, {&token, 1}, behind_)) return false;
  after = behind_[0];
  if (after >= 0 && looks_ahead_) {
    bool stuck = false;
    if (!measure(state, nullptr)) return false;
    if (breadths_[state] == kNo && !is_stuck(after, stuck)) return false;
    if (stuck) after = CDEC_DEAD;
  }
  memo_.keep_step(state, token, after);
  return true;
}

}  // namespace cdec::canonical

using namespace cdec::canonical;

struct cdec_product : Product {
  using Product::Product;
};

namespace {

template <class Session, class Handle>
cdec_product *made(Handle *handle, cdec_spelled *spelled, const cdec_product_settings *settings) {
  cdec_product *product = nullptr;
  cdec::guarded([&]() -> int64_t {
    product = new cdec_product(std::make_unique<Session>(handle), *spelled, *settings);
    return 0;
  });
  return product;
}

// Does rows of a call: how many are done, and what has to be told for the next.
template <class Row>
int64_t rows(cdec_product *product, int64_t count, cdec_i64_out needed, Row &&row) {
  const std::lock_guard lock(product->mutex);
  return cdec::guarded([&]() -> int64_t {
    for (int64_t i = 0; i < count; ++i) {
      if (row(i)) continue;
      const Needed &need = product->needed();
      const int64_t numbers[] = {need.what, need.state, need.token};
      std::copy_n(numbers, std::min<int64_t>(needed.size, 3), needed.at);
      return i;
    }
    return count;
  });
}

}  // namespace

extern "C" {

cdec_product *cdec_product_of_grammar(cdec_grammar_session *session, cdec_spelled *spelled,
                                      const cdec_product_settings *settings) {
  return made<InnerGrammar>(session, spelled, settings);
}

cdec_product *cdec_product_of_schema(cdec_schema_engine *engine, cdec_spelled *spelled,
                                     const cdec_product_settings *settings) {
  return made<InnerSchema>(engine, spelled, settings);
}

void cdec_product_free(cdec_product *product) { delete product; }

int64_t cdec_product_pair(cdec_product *product, int64_t left, int64_t right) {
  const std::lock_guard lock(product->mutex);
  return cdec::guarded(
      [&]() -> int64_t { return left < 0 || right < 0 ? -1 : product->pair(left, right); });
}

int64_t cdec_product_halves(cdec_product *product, cdec_i64 states, cdec_i64_out left,
                            cdec_i64_out right) {
  const std::lock_guard lock(product->mutex);
  for (int64_t i = 0; i < states.size; ++i) {
    left[i] = right[i] = CDEC_DEAD;
    if (product->holds(states[i])) std::tie(left[i], right[i]) = product->halves(states[i]);
  }
  return 0;
}

int64_t cdec_product_fill_mask(cdec_product *product, cdec_i64 states, cdec_i32_rows_out mask,
                               cdec_i64_out needed) {
  if (mask.width != product->words()) return -1;
  return rows(product, states.size, needed, [&](int64_t i) {
    if (product->holds(states[i])) return product->fill(states[i], mask[i]);
    std::fill_n(mask[i], mask.width, 0);
    return true;
  });
}

int64_t cdec_product_advance(cdec_product *product, cdec_i64 states, cdec_i64 tokens,
                             cdec_i64_out out, cdec_i64_out needed) {
  return rows(product, states.size, needed, [&](int64_t i) {
    out[i] = CDEC_DEAD;
    return !product->holds(states[i]) || product->step(states[i], tokens[i], out[i]);
  });
}

int64_t cdec_product_know(cdec_product *product, cdec_i64 states, cdec_bool stuck,
                          int64_t most_ways) {
  const std::lock_guard lock(product->mutex);
  return cdec::guarded([&]() -> int64_t {
    product->know_all(most_ways);
    for (int64_t i = 0; i < states.size; ++i)
      if (product->holds(states[i])) product->know(states[i], stuck[i]);
    return 0;
  });
}

int64_t cdec_product_statistics(cdec_product *product, cdec_i64_out out) {
  const std::lock_guard lock(product->mutex);
  const int64_t found[] = {product->size(), product->bytes()};
  std::copy_n(found, std::min<int64_t>(out.size, 2), out.at);
  return 0;
}

}  // extern "C"
