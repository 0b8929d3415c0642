// Automata laid out as edges, and what can be reached from each state.
#include "edges.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "guarded.h"

namespace {

using cdec::is_within;
using cdec::settle;
using cdec::targets;

constexpr int32_t kFar = INT32_MAX - 1;

// Steps along edges whose numbers may be anything; -1 is no state.
class Follower {
 public:
  Follower(const cdec_edges &edges, int64_t states)
      : edges_(edges), states_(std::min(states, edges.offsets.size - 1)),
        size_(std::min({edges.lows.size, edges.highs.size, edges.targets.size})) {}

  bool is_state(int64_t state) const { return state >= 0 && state < states_; }

  int64_t after(int64_t state, int32_t byte) const {
    if (!is_state(state)) return -1;
    const int64_t stop = std::min(edges_.offsets[state + 1], size_);
    for (int64_t at = std::max<int64_t>(edges_.offsets[state], 0); at < stop; ++at)
      if (byte <= edges_.highs[at]) return byte >= edges_.lows[at] ? edges_.targets[at] : -1;
    return -1;
  }

 private:
  const cdec_edges &edges_;
  int64_t states_, size_;
};

// Whether any text, or any text with one label, can still be accepted.
class Freedom {
 public:
  Freedom(const cdec_edges &edges, cdec_i32 labels, const cdec_edges &universe)
      : edges_(edges), universe_(universe), states_(labels.size), kinds_(universe.offsets.size - 1),
        refuses_(states_ * kinds_), ahead_(labels.at, labels.at + labels.size), absorbs_(states_) {
    settle(states_, [this](int64_t state) { return refuse(state); });
    look_ahead();
    for (int64_t state = 0; state < states_; ++state)
      absorbs_[state] = ahead_[state] >= 0 && (is_within(edges, state) || is_free(state));
    settle(states_, [this](int64_t state) { return leave(state); });
  }

  bool is_free(int64_t state) const {
    return !is_within(edges_, state) && !refuses_[state * kinds_];
  }
  bool absorbs(int64_t state) const { return absorbs_[state]; }

 private:
  static constexpr int32_t kMixed = -2, kUnknown = -3;

  // Finds kinds of UTF-8's states (0: between characters) from which some text is refused.
  bool refuse(int64_t state) {
    const bool inside = is_within(edges_, state);
    bool is_changed = false;
    for (int64_t kind = inside; kind < (inside ? kinds_ : 1); ++kind) {
      if (refuses_[state * kinds_ + kind] || covers(state, kind)) continue;
      refuses_[state * kinds_ + kind] = is_changed = true;
    }
    return is_changed;
  }

  // Whether every byte that UTF-8 has in a state leads on from `state`.
  bool covers(int64_t state, int64_t kind) const {
    int64_t at = edges_.offsets[state];
    const int64_t end = edges_.offsets[state + 1];
    for (int64_t of = universe_.offsets[kind]; of < universe_.offsets[kind + 1]; ++of) {
      int byte = universe_.lows[of];
      while (at < end && edges_.highs[at] < byte) ++at;
      for (int64_t here = at; byte <= universe_.highs[of]; byte = edges_.highs[here++] + 1)
        if (here >= end || edges_.lows[here] > byte ||
            refuses_[edges_.targets[here] * kinds_ + universe_.targets[of]])
          return false;
    }
    return true;
  }

  // Gives states within characters the label that all ends of the character have.
  void look_ahead() {
    for (int64_t state = 0; state < states_; ++state)
      if (is_within(edges_, state)) ahead_[state] = kUnknown;
    for (int round = 0; round < 3; ++round)
      for (int64_t state = 0; state < states_; ++state)
        if (is_within(edges_, state))
          for (const int32_t target : targets(edges_, state)) meet(ahead_[state], ahead_[target]);
  }

  static void meet(int32_t &label, int32_t other) {
    if (label == kUnknown)
      label = other;
    else if (other != kUnknown && other != label)
      label = kMixed;
  }

  bool leave(int64_t state) {
    const auto differs = [&](int32_t target) {
      return !absorbs_[target] || ahead_[target] != ahead_[state];
    };
    if (!absorbs_[state] || std::ranges::none_of(targets(edges_, state), differs)) return false;
    absorbs_[state] = false;
    return true;
  }

  const cdec_edges &edges_, &universe_;
  const int64_t states_, kinds_;
  std::vector<uint8_t> refuses_; // [states, kinds]
  std::vector<int32_t> ahead_;
  std::vector<uint8_t> absorbs_;
};

// Texts by the state that they lead to, character by character.
class Ways {
 public:
  Ways(const cdec_edges &edges, int64_t states) : edges_(edges), ways_(states) { ways_[0] = 1; }

  double operator[](int64_t state) const { return ways_[state]; }

  void grow() {
    std::vector<double> found(ways_.size()), inside(std::move(ways_));
    for (int byte = 0; byte < 4; ++byte) {
      std::vector<double> following(found.size());
      for (size_t state = 0; state < found.size(); ++state) {
        if (inside[state] == 0) continue;
        for (int64_t at = edges_.offsets[state]; at < edges_.offsets[state + 1]; ++at) {
          const int32_t target = edges_.targets[at];
          double &sum = (is_within(edges_, target) ? following : found)[target];
          sum = std::min(sum + inside[state] * (edges_.highs[at] - edges_.lows[at] + 1), kMost);
        }
      }
      inside = std::move(following);
    }
    ways_ = std::move(found);
  }

 private:
  static constexpr double kMost = 1e300;
  const cdec_edges &edges_;
  std::vector<double> ways_;
};

}  // namespace

extern "C" {

int64_t cdec_byte_ranges(cdec_i32 byte_class, cdec_i32_rows rows, cdec_i64_out offsets,
                         cdec_u8_out lows, cdec_u8_out highs, cdec_i32_out targets) {
  int64_t count = 0;
  offsets[0] = 0;
  for (int64_t state = 0; state < rows.rows; ++state) {
    int32_t last = -1;
    for (int byte = 0; byte < 256; ++byte) {
      const int32_t target = rows[state][byte_class[byte]];
      count += target >= 0 && target != last;
      if (target >= 0 && count <= targets.size) {
        if (target != last) lows[count - 1] = static_cast<uint8_t>(byte);
        highs[count - 1] = static_cast<uint8_t>(byte);
        targets[count - 1] = target;
      }
      last = target;
    }
    offsets[state + 1] = count;
  }
  return count;
}

int64_t cdec_accepted(cdec_i32 byte_class, cdec_i32_rows rows, cdec_bool accepts, cdec_u8 texts,
                      cdec_i64 offsets, cdec_bool_out found) {
  for (int64_t i = 0; i < found.size; ++i) {
    int32_t state = 0;
    for (int64_t at = offsets[i]; at < offsets[i + 1] && state >= 0; ++at)
      state = rows[state][byte_class[texts[at]]];
    found[i] = state >= 0 && accepts[state];
  }
  return 0;
}

int64_t cdec_shortest_texts(const cdec_edges *edges, cdec_i32 labels, cdec_i32_out out) {
  for (int64_t state = 0; state < labels.size; ++state) out[state] = labels[state] >= 0 ? 0 : kFar;
  settle(labels.size, [&](int64_t state) {
    const int32_t before = out[state];
    for (int64_t at = edges->offsets[state]; at < edges->offsets[state + 1]; ++at)
      out[state] = std::min(out[state],
                            out[edges->targets[at]] + !cdec::continues(edges->lows[at]));
    return out[state] != before;
  });
  return 0;
}

int64_t cdec_free_states(const cdec_edges *edges, cdec_i32 labels, const cdec_edges *universe,
                         cdec_u8_out out) {
  return cdec::guarded([&]() -> int64_t {
    const Freedom freedom(*edges, labels, *universe);
    for (int64_t state = 0; state < labels.size; ++state)
      out[state] = freedom.is_free(state) ? 1 + freedom.absorbs(state) : 0;
    return 0;
  });
}

int64_t cdec_reached_labels(const cdec_edges *edges, cdec_i32 labels, int64_t singles,
                            cdec_i32_out low, cdec_i32_out high, cdec_u8_out is_open) {
  for (int64_t state = 0; state < labels.size; ++state) {
    const bool is_single = labels[state] >= 0 && labels[state] < singles;
    is_open[state] = labels[state] >= singles;
    low[state] = is_single ? labels[state] : kFar;
    high[state] = is_single ? labels[state] + 1 : 0;
  }
  settle(labels.size, [&](int64_t state) {
    bool is_changed = false;
    const auto raise = [&](auto &value, auto other) {
      is_changed |= std::exchange(value, std::max(value, other)) < other;
    };
    for (const int32_t target : targets(*edges, state)) {
      is_changed |= std::exchange(low[state], std::min(low[state], low[target])) > low[target];
      raise(high[state], high[target]);
      raise(is_open[state], is_open[target]);
    }
    return is_changed;
  });
  for (int64_t state = 0; state < labels.size; ++state)
    if (high[state] == 0) low[state] = 0;
  return 0;
}

int64_t cdec_longest_text(const cdec_edges *edges, cdec_bool accepts) {
  return cdec::guarded([&]() -> int64_t {
    const int64_t states = accepts.size;
    if (states == 1 && !accepts[0]) return -1;
    std::vector<int64_t> waiting(states), longest(states), ready;
    for (int64_t at = 0; at < edges->targets.size; ++at) ++waiting[edges->targets[at]];
    if (waiting[0] == 0) ready.push_back(0);
    int64_t best = 0, done = 0;
    for (; !ready.empty(); ++done) {
      const int64_t state = ready.back();
      ready.pop_back();
      if (accepts[state]) best = std::max(best, longest[state]);
      for (int64_t at = edges->offsets[state]; at < edges->offsets[state + 1]; ++at) {
        const int32_t target = edges->targets[at];
        longest[target] =
            std::max(longest[target], longest[state] + !cdec::continues(edges->lows[at]));
        if (--waiting[target] == 0) ready.push_back(target);
      }
    }
    return done == states ? best : -1;
  });
}

int64_t cdec_mark_accepted(const cdec_edges *edges, cdec_i32 labels, int64_t start, int64_t low,
                           int64_t high, cdec_i32 tokens, cdec_i64 row_offsets,
                           cdec_bool_out found) {
  const Follower follower(*edges, labels.size);
  for (int64_t row = 0; row < found.size; ++row) {
    const int64_t first = std::max<int64_t>(row_offsets[row], 0);
    const int64_t stop = std::min(row_offsets[row + 1], tokens.size);
    int64_t state = start, characters = 0;
    for (int64_t at = first; at < stop && state >= 0; ++at) {
      state = follower.after(state, tokens[at]);
      characters += !cdec::continues(static_cast<uint8_t>(tokens[at]));
    }
    const bool is_length = characters >= low && (high < 0 || characters <= high);
    if (follower.is_state(state) && labels[state] >= 0 && is_length) found[row] = true;
  }
  return 0;
}

int64_t cdec_texts_between(const cdec_edges *edges, cdec_bool accepts, int64_t low, int64_t high,
                           int64_t limit) {
  return cdec::guarded([&]() -> int64_t {
    Ways ways(*edges, accepts.size);
    double found = 0;
    for (int64_t length = 0;; ++length, ways.grow()) {
      for (int64_t state = 0; state < accepts.size && length >= low; ++state)
        if (accepts[state]) found += ways[state];
      if (length == high || found > static_cast<double>(limit)) break;
    }
    return static_cast<int64_t>(std::min(found, static_cast<double>(limit) + 1));
  });
}

}  // extern "C"
