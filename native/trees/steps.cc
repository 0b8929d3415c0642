// Steps of a walk: the readings of a text after one more byte.
#include <algorithm>

#include "walks.h"

namespace cdec::trees {

// Appends the reading that enters `state` and the ends of the terminals that it completes.
void Walks::enter(int32_t path, int32_t state, int32_t begun) {
  if (scanner_.live_row[state] >= 0) list_.push_back({path, state, begun});
  int32_t last = kNone;
  for (const int32_t terminal : scanner_.matches(state)) {
    if (terminal != last)
      list_.push_back({paths_.intern(path, terminal, kNone, kNone), Branch::at_end(0), begun});
    last = terminal;
  }
}

// The walk state after a byte of class k, for contextual and basic lexing.
int32_t Walks::step_lexing(int32_t walk, int32_t k) {
  const std::span<const Branch> branches = lists_[walk];
  int32_t flags = states_[walk].flags;
  list_.clear();
  for (size_t at = 0; at < branches.size() && !is_full();) {
    const auto [path, from, begun] = branches[at++];
    if (from < 0) {
      for (const Enter &way : scanner_.enters.of(paths_[path].terminal, k))
        if (!is_full())
          enter(paths_.intern(path, kNone, way.byte_class, way.state), way.state, begun + 1);
      continue;
    }
    const int32_t state = scanner_.delta[from][k];
    if (state < 0) continue;
    enter(path, state, std::max(begun, 1));
    if (scanner_.matches(state).size() != 1) continue;
    // What was read after an earlier end of this terminal has become void.
    while (at < branches.size() && paths_.is_below(branches[at].path, path)) ++at;
    if (path == kRoot) flags = kTaken;
  }
  if (is_full()) {
    flags |= kSpilled;
    list_.resize(list_[0].path == kRoot ? 1 : 0);
  }
  return intern(flags);
}

// Puts a branch into the sorted list; one that is there keeps the smaller number begun.
void Walks::put_sorted(const Branch &branch) {
  const auto at = std::ranges::lower_bound(list_, branch, [](const Branch &a, const Branch &b) {
    return a.path < b.path || (a.path == b.path && a.state < b.state);
  });
  if (at != list_.end() && at->path == branch.path && at->state == branch.state)
    at->begun = std::min(at->begun, branch.begun);
  else
    list_.insert(at, branch);
}

// The walk state after a byte of class k where every segmentation counts.
int32_t Walks::step_dynamic(int32_t walk, int32_t k) {
  list_.clear();
  for (const Branch &branch : lists_[walk]) {
    const int32_t from =
        branch.is_at_end() ? scanner_.context_start[branch.context()] : branch.state;
    const int32_t begun = branch.is_at_end() ? branch.begun + 1 : std::max(branch.begun, 1);
    const int32_t state = scanner_.delta[from][k];
    if (state < 0) continue;
    if (scanner_.live_row[state] >= 0) put_sorted({branch.path, state, begun});
    for (const int32_t terminal : scanner_.matches(state)) {
      // An ignored terminal leaves the stack as it is, so it needs no node.
      const int32_t node = scanner_.ignored[terminal]
                               ? branch.path
                               : paths_.intern(branch.path, terminal, kNone, kNone);
      put_sorted({node, Branch::at_end(scanner_.after_contexts[terminal]), begun});
      if (is_full()) break;
    }
    if (is_full()) break;
  }
  if (!is_full()) return intern(0);
  list_.clear();
  return intern(kSpilled);
}

}  // namespace cdec::trees
