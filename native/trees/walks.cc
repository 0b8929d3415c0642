// Walk states: interned lists of readings, their outcomes, and what is even about them.
#include "walks.h"

#include <algorithm>

namespace cdec::trees {

namespace {

// The hash of a sequence that goes on with `item` (finaliser of MurmurHash3).
uint64_t chained(uint64_t value, int64_t item) {
  value = (value ^ static_cast<uint64_t>(item)) * 0xFF51AFD7ED558CCD;
  value = (value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53;
  return value ^ (value >> 33);
}

uint64_t chained(uint64_t value, const Branch &branch) {
  return chained(chained(chained(value, branch.path), branch.state), branch.begun);
}

uint64_t chained(uint64_t value, const Result &result) {
  return chained(chained(chained(value, result.path), result.live), result.depth);
}

}  // namespace

int32_t Paths::intern(int32_t parent, int32_t terminal, int32_t byte_class, int32_t next) {
  const int32_t level = parent == kRoot ? 1 : nodes_[parent].level + 1;
  const PathNode wanted{parent, terminal, byte_class, next, level};
  const uint64_t above = parent == kRoot ? 1 : numbers_.hash(parent);
  const uint64_t value = chained(chained(chained(above, terminal), byte_class), next);
  const int32_t known = numbers_.find(value, [&](int32_t node) { return nodes_[node].is(wanted); });
  if (known >= 0) return known;
  nodes_.push_back(wanted);
  return numbers_.add(value);
}

bool Paths::is_below(int32_t node, int32_t ancestor) const {
  if (ancestor == kRoot) return node != kRoot;
  while (node != kRoot && nodes_[node].level > nodes_[ancestor].level) {
    node = nodes_[node].parent;
    if (node == ancestor) return true;
  }
  return false;
}

template <class Item>
int32_t TaggedLists<Item>::intern(std::span<const Item> list, int32_t tag) {
  uint64_t value = chained(list.size(), tag);
  for (const Item &item : list) value = chained(value, item);
  const int32_t known = numbers_.find(value, [&](int32_t number) {
    return tags_[number] == tag && std::ranges::equal((*this)[number], list);
  });
  if (known >= 0) return known;
  items_.insert(items_.end(), list.begin(), list.end());
  ends_.push_back(static_cast<int64_t>(items_.size()));
  tags_.push_back(tag);
  return numbers_.add(value);
}

Walks::Walks(const Scanner &scanner) : scanner_(scanner), classes_(scanner.delta.width) {
  intern(0);
}

int32_t Walks::start(int32_t state) {
  list_.assign(1, {kRoot, state, 0});
  return intern(0);
}

// The walk state whose list is under construction.
int32_t Walks::intern(int32_t flags) {
  const int32_t walk = lists_.intern(list_, flags);
  if (walk < static_cast<int32_t>(states_.size())) return walk;
  // No byte leads out of an empty list; all 64 bits: those of classes from 63 on neither.
  const bool is_empty = list_.empty();
  states_.push_back({flags, kUnset, is_empty ? walk : kNone, is_empty ? ~uint64_t{0} : 0});
  transitions_.resize(transitions_.size() + classes_, kNone);
  return walk;
}

int32_t Walks::follow(int32_t walk, int32_t k) {
  work_ += static_cast<int64_t>(lists_[walk].size());
  int32_t following;
  const bool is_stopped = stops(walk, k);
  if (is_stopped) {
    list_.clear();
    following = intern(states_[walk].flags);
  } else {
    following = scanner_.lexing ? step_lexing(walk, k) : step_dynamic(walk, k);
  }
  transitions_[walk * classes_ + k] = following;
  if (!is_stopped && k < 63) note_alike(walk, k, following);
  return following;
}

// Whether no reading goes on with a class; most edges of most walk states are such.
// subtle: it costs less than the step that would find it out; what is not certain is stepped.
bool Walks::stops(int32_t walk, int32_t k) const {
  if (states_[walk].flags & kSpilled) return false;
  for (const Branch &branch : lists_[walk]) {
    if (branch.is_at_end() && scanner_.lexing) {
      if (!scanner_.enters.of(paths_[branch.path].terminal, k).empty()) return false;
      continue;
    }
    const int32_t state =
        branch.is_at_end() ? scanner_.context_start[branch.context()] : branch.state;
    if (scanner_.delta[state][k] >= 0) return false;
  }
  return true;
}

// Notes where a step changes nothing about the tokens that end before and after it.
void Walks::note_alike(int32_t walk, int32_t k, int32_t following) {
  const uint64_t bit = uint64_t{1} << k;
  WalkState &state = states_[walk];
  if (state.alike == following) {
    state.loops |= bit;
    return;
  }
  // subtle: a loop is worth more than the way into a row of states, which may be short.
  const bool is_alike = following == walk ||
                        (state.alike < 0 && state.flags == states_[following].flags &&
                         outcome(walk) == outcome(following));
  if (is_alike) state.alike = following, state.loops = bit;
}

bool Walks::is_even(int32_t walk, uint64_t classes, int32_t height) const {
  for (; height > 0; --height) {
    const WalkState &state = states_[walk];
    if (classes & ~state.loops) return false;
    if (state.alike == walk) return true;
    walk = state.alike;
  }
  return true;
}

int32_t Walks::outcome(int32_t walk) {
  if (states_[walk].outcome == kUnset) states_[walk].outcome = find_outcome(walk);
  return states_[walk].outcome;
}

int32_t Walks::find_outcome(int32_t walk) {
  if (states_[walk].flags & kSpilled) return kVerify;
  if (lists_[walk].empty()) return kNothing;
  results_.clear();
  for (const Branch &branch : lists_[walk])
    place({branch.path, branch.is_at_end() ? kNone : scanner_.live_row[branch.state],
           branch.begun - 1});
  drop_implied();
  if (static_cast<int64_t>(results_.size()) > scanner_.max_branches) return kVerify;
  return outcomes_.intern(results_, 0);
}

// Puts a result in its place among those so far, or lowers its depth.
void Walks::place(const Result &result) {
  const uint64_t key = paths_.hash(result.path);
  size_t at = results_.size();
  for (; at > 0; --at) {
    const Result &before = results_[at - 1];
    const uint64_t other = paths_.hash(before.path);
    if (other < key || (other == key && before.live <= result.live)) break;
  }
  if (at > 0 && results_[at - 1].path == result.path && results_[at - 1].live == result.live)
    results_[at - 1].depth = std::min(results_[at - 1].depth, result.depth);
  else
    results_.insert(results_.begin() + static_cast<int64_t>(at), result);
}

// Drops branches whose path alone is enough for the token, at no greater depth.
void Walks::drop_implied() {
  size_t kept = 0;
  Result whole{};
  bool has_whole = false;
  for (const Result result : results_) {
    if (result.live >= 0 && has_whole && whole.path == result.path && whole.depth <= result.depth)
      continue;
    if (result.live < 0) whole = result, has_whole = true;
    results_[kept++] = result;
  }
  results_.resize(kept);
}

}  // namespace cdec::trees
