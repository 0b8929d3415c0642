// Strings that may have so many tokens: what is left of a state behind a token.
//
// An alternative of a string counts the tokens in which a byte of it stands (frames.h). Behind a
// token it goes on where the string can still come to its end within what is left, by tokens that
// hold nothing but content; how many that takes is searched for (A*), whatever stands outside.
#pragma once

#include <queue>

#include "differing.h"

namespace cdec::schemas {

class Budgets {
 public:
  static constexpr int32_t kFar = INT32_MAX / 2;
  // Fewest tokens to where a string may end; the first of them, -1 where none is needed or no way is
  // known.
  struct Reach {
    int32_t fewest = kUnknown;
    int32_t token = -1;
  };

  Budgets(States& states, const cdec_token_trie& whole)
      : states_(states), p(states.p), whole_(whole) {
    int32_t deepest = 1;
    for (int64_t node = 0; node < whole.depth.size; ++node)
      deepest = std::max(deepest, whole.depth[node]);
    longest_ = deepest;
    path_.resize(deepest + 1);
  }

  // The state with which a token ends, without the alternatives that cannot end in time; -1 where
  // none is left. O(1) if done before.
  int32_t settle(int32_t state) {
    if (state < 0 || p.string_tokens.empty()) return state;
    if (state >= static_cast<int64_t>(settled_.size())) settled_.resize(states_.size(), kUnknown);
    if (settled_[state] == kUnknown) {
      const int32_t found = compute(state);
      if (state >= static_cast<int64_t>(settled_.size())) settled_.resize(states_.size(), kUnknown);
      settled_[state] = found;
    }
    return settled_[state];
  }

  // The same of an alternative of a string, whatever its budget.
  Reach reach(const Item& item, LexicalState lexical) { return reach_of(alone(item, lexical)); }

  // The tokens that are left to an alternative; -1 where any number may come.
  int64_t left(const Item& item) const {
    const int64_t most = p.most_tokens(item.part);
    return most < 0 ? -1 : most - (item.tokens >> 1);
  }

  // The fewest tokens of an alternative of strings.
  int32_t fewest_of(int64_t string) {
    const int32_t begin = p.string_begin(string);
    const Item whole{0, static_cast<int32_t>(string), begin, 0};
    return begin < 0 ? kFar : reach(whole, LexicalState(0)).fewest;
  }

 private:
  static constexpr int32_t kUnknown = -3;

  int32_t compute(int32_t state) {
    const Frame at = states_.frame(states_[state].frame);
    if (at.phase != Phase::kString) return state;
    const auto is_counted = [&](const Item& item) { return p.most_tokens(item.part) >= 0; };
    if (std::ranges::none_of(at.items, is_counted)) return state;
    const LexicalState lexical = states_[state].lexical;
    std::vector<Item> kept;
    for (Item item : std::vector<Item>(at.items.begin(), at.items.end())) {
      if (is_counted(item)) {
        // What no token can end is not held back by its number of tokens.
        const int32_t fewest = reach(item, lexical).fewest;
        if (fewest > left(item) && fewest < kFar) continue;
        item.tokens &= ~1;
      }
      kept.push_back(item);
    }
    const auto [phase, parent, text, value, items] = states_.frame(states_[state].frame);
    states_.begin_frame(phase, parent, text, value);
    for (const Item& item : kept) states_.add(item);
    return states_.state_of(states_.end_frame(), lexical);
  }

  // The state of one alternative that counts nothing, as if nothing stood outside.
  int32_t alone(Item item, LexicalState lexical) {
    if (outside_ < 0) outside_ = states_[states_.start()].frame;
    item.value = 0;
    item.tokens = kUncounted;
    states_.begin_frame(Phase::kString, outside_, kNone, kNone);
    states_.add(item);
    return states_.state_of(states_.end_frame(), LexicalState(Style::kUndecided, lexical.escape()));
  }

  const Item& only_item(int32_t state) const {
    return states_.frame(states_[state].frame).items.front();
  }

  bool is_end(int32_t state) const {
    return !states_[state].lexical.is_escape() &&
           states_.item_may_end(Phase::kString, only_item(state));
  }

  // No more than the tokens that are lacking: no token has more characters than the longest bytes.
  int64_t at_least(int32_t state) const {
    const Item& item = only_item(state);
    if (p.sets.is_place(item.place)) return 0;
    const int64_t lacking = std::max<int64_t>(p.state_shortest[item.place],
                                              p.string_min[item.part] - int64_t{item.content});
    return (std::max<int64_t>(lacking, 0) + longest_ - 1) / longest_;
  }

  Reach reach_of(int32_t state) {
    if (known(state).fewest == kUnknown) search(state);
    return known(state);
  }
  Reach& known(int32_t state) {
    if (state >= static_cast<int64_t>(reach_.size())) reach_.resize(states_.size());
    return reach_[state];
  }

  // A* (Hart, Nilsson and Raphael, 1968) from a state to where a string may end, or to a state of
  // which more is known; what it finds is noted for all states on the way.
  void search(int32_t from) {
    struct Step {
      int32_t before, token;
      int64_t steps;
    };
    struct Open {
      int64_t bound;
      int32_t state;
      bool operator<(const Open& other) const { return bound > other.bound; }
    };
    std::unordered_map<int32_t, Step> seen{{from, {-1, -1, 0}}};
    std::priority_queue<Open> open;
    open.push({at_least(from), from});
    int64_t best = kFar;
    int32_t last = -1;
    while (!open.empty() && open.top().bound < best) {
      const auto [bound, state] = open.top();
      open.pop();
      const int64_t steps = seen.at(state).steps;
      if (bound > steps + at_least(state)) continue;  // a shorter way to it was followed
      const bool is_known = known(state).fewest != kUnknown;
      if (is_known || is_end(state)) {
        const int64_t total = steps + (is_known ? known(state).fewest : 0);
        if (total < best) best = total, last = state;
        continue;
      }
      each_token(state, [&](int32_t token, int32_t after) {
        const auto [place, is_new] = seen.try_emplace(after, Step{state, token, steps + 1});
        if (!is_new && place->second.steps <= steps + 1) return;
        place->second = {state, token, steps + 1};
        open.push({steps + 1 + at_least(after), after});
      });
    }
    if (last < 0) {
      for (const auto& one : seen) known(one.first) = {kFar, -1};
      return;
    }
    if (known(last).fewest == kUnknown) known(last) = {0, -1};
    for (int32_t at = last; at != from;) {
      const Step step = seen.at(at);
      known(step.before) = {known(at).fewest + 1, step.token};
      at = step.before;
    }
  }

  // Visits the tokens that are content alone, and the states behind them.
  template <class Visit>
  void each_token(int32_t state, Visit&& visit) {
    path_[0] = state;
    for (int64_t node = 0; node < whole_.depth.size;) {
      const int32_t depth = whole_.depth[node], byte = whole_.node_byte[node],
                    before = path_[depth - 1];
      const bool is_quote = byte == '"' && !states_[before].lexical.is_escape();
      const int32_t after =
          is_quote || !states_.may_come(before, byte) ? -1 : states_.step(before, byte);
      if (after < 0) {
        node = whole_.skip[node];
        continue;
      }
      path_[depth] = after;
      for (int32_t i = whole_.token_offsets[node]; i < whole_.token_offsets[node + 1]; ++i)
        visit(whole_.token_ids[i], after);
      ++node;
    }
  }

  States& states_;
  const Program& p;
  const cdec_token_trie& whole_;
  int64_t longest_;
  int32_t outside_ = -1;         // a frame that stands for any
  std::vector<int32_t> settled_;  // by state
  std::vector<Reach> reach_;     // by state of one alternative
  std::vector<int32_t> path_;    // of the walk under way
};

}  // namespace cdec::schemas
