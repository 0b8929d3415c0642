// The generalised parser: every action counts, over a graph of stacks.
//
// Generalised LR parsing (Tomita 1985). Its later variants (right-nulled, reduction-incorporated) are
// not needed: no rule is empty here, so the base of every reduction lies below the level at work.
#include "parser.h"

namespace cdec::grammars {

void Level::add(const Stacks &stacks, int64_t state, Stack below) {
  if (state < 0) return;
  if (below >= kNone) {
    add_one(state, below);
    return;
  }
  // One LR state has many numbers where it has ages.
  int64_t &known = sets_[state % static_cast<int64_t>(sets_.size())];
  const int64_t none = stamp_ << 8, count = std::max(known, none);
  if (count < none + kSets) {
    known = count + add_one(state, below);
    return;
  }
  for (int64_t i = 0; i < stacks.count(below); ++i) add_one(state, stacks.member(below, i));
}

// Adds an edge, once; tells whether it is new.
bool Level::add_one(int64_t state, Stack below) {
  const int64_t key = pack(state, below);
  Seen *seen = &place(key);
  if (seen->stamp == stamp_) return false;
  if (2 * (edges_.size() + 1) > seen_.size()) grow(), seen = &place(key);
  edges_.push_back({static_cast<int32_t>(state), below});
  *seen = {key, stamp_};
  return true;
}

Level::Seen &Level::place(int64_t key) {
  const size_t mask = seen_.size() - 1;
  size_t at = mixed(key) & mask;
  while (seen_[at].stamp == stamp_ && seen_[at].key != key) at = (at + 1) & mask;
  return seen_[at];
}

void Level::grow() {
  seen_.assign(2 * seen_.size(), Seen{});
  for (const Edge &edge : edges_) {
    const int64_t key = pack(edge.state, edge.below);
    place(key) = {key, stamp_};
  }
}

// All ways to reduce and shift. On a whole stack a call that had to come back goes on with the edge
// that comes next.
Stack Parser::shift_general(Stack stack, int64_t terminal, bool builds, bool is_partial) {
  const int64_t key = pack(stack, terminal << 1 | builds);
  bool can_shift = false;
  for (int64_t at = begin_or_resume(stack, key, can_shift); at < level_.size(); ++at) {
    if (is_partial) {
      work_.stop();
    } else if (work_.is_due()) {
      save_level(key, at, can_shift);
      work_.pause();
    }
    const bool shifts = reduce_edge(level_[at], terminal, builds);
    if (shifts && !builds) return kShiftable;
    can_shift |= shifts;
  }
  return can_shift ? shift_level(terminal) : kFail;
}

// The first edge to look at; `can_shift` tells whether some before it could be shifted.
int64_t Parser::begin_or_resume(Stack stack, int64_t key, bool &can_shift) {
  if (paused->level && paused->key == key) {
    level_ = std::move(*paused->level);
    paused->level.reset();
    can_shift = paused->can_shift;
    return paused->at;
  }
  level_.begin();
  for (int64_t i = 0; i < stacks_.count(stack); ++i) {
    const Vertex &top = stacks_[stacks_.member(stack, i)];
    level_.add(stacks_, top.state, top.below);
  }
  return 0;
}

void Parser::save_level(int64_t key, int64_t at, bool can_shift) {
  paused->level.emplace(std::move(level_));
  paused->key = key, paused->at = at, paused->can_shift = can_shift;
  level_ = Level(grammar_.lr_states, &memory_);
  work_.keeps |= at >= kKeptAfter;
}

// Adds the edges of all reductions of an edge; tells whether it can be shifted. Without `builds` the
// first shift is enough.
bool Parser::reduce_edge(Level::Edge edge, int64_t terminal, bool builds) {
  bool shifts = false;
  const int64_t state = grammar_.lr_of(edge.state);
  for (int64_t action = grammar_.action(state, terminal); action >= 0;
       action = grammar_.has_more(state, action, terminal) ? action + 1 : -1) {
    const int64_t value = grammar_.columns.action_values[action];
    if (value >= 0) {
      shifts = true;
      if (!builds) break;
    } else if (edge.below != kNone) {
      reduce(~value, edge);
    }
  }
  return shifts;
}

// Adds the edges of all ways to reduce a rule whose last symbol is an edge.
void Parser::reduce(int64_t rule, Level::Edge last) {
  if (rule >= grammar_.rules) return;
  const int64_t length = grammar_.columns.rule_length[rule];
  const int64_t nonterminal = grammar_.columns.rule_lhs[rule];
  if (length < 1) return;
  frontier_.clear();
  for (int64_t i = 0; i < stacks_.count(last.below); ++i)
    frontier_.push_back(stacks_.member(last.below, i));
  if (length == 1) {
    if (const int32_t age = grammar_.age_of(last.state); !grammar_.is_too_old(rule, age))
      add_gotos(nonterminal, age);
    return;
  }
  const bool has_ages = grammar_.counts_rules();
  for (int64_t left = length - 1; left > has_ages && !frontier_.empty(); --left)
    pop(frontier_, nonterminal, left);
  if (!has_ages) return add_gotos(nonterminal, 0);
  // What is left of the frontier is the first symbol, whose age is the rule's.
  const auto age_of = [this](Stack first) { return grammar_.age_of(stacks_[first].state); };
  std::vector<Stack> firsts(frontier_.begin(), frontier_.end());
  std::ranges::stable_sort(firsts, {}, age_of);
  for (auto run = firsts.begin(); run != firsts.end();) {
    const int32_t age = age_of(*run);
    const auto end = std::find_if(run, firsts.end(), [&](Stack each) { return age_of(each) != age; });
    if (grammar_.is_too_old(rule, age)) return;
    pop({run, end}, nonterminal, 1);
    add_gotos(nonterminal, age);
    run = end;
  }
}

// Makes the frontier of what lies below some vertices, once each.
void Parser::pop(std::span<const Stack> tops, int64_t nonterminal, int64_t left) {
  const int64_t mark = stacks_.new_mark();
  next_.clear();
  for (const Stack here : tops) {
    if (stacks_[here].state == grammar_.lr_states) {
      deferred.push_back(deferred_reduction(nonterminal, left));
      continue;
    }
    const Stack under = stacks_[here].below;
    for (int64_t i = 0; i < stacks_.count(under); ++i) {
      const Stack found = stacks_.member(under, i);
      if (stacks_[found].mark == mark) continue;
      stacks_[found].mark = mark;
      next_.push_back(found);
    }
  }
  frontier_.swap(next_);
  work_.spend(static_cast<int64_t>(frontier_.size()));
}

// Adds the edges of a nonterminal of some age above the frontier; above the unknown suffix it is
// deferred.
void Parser::add_gotos(int64_t nonterminal, int32_t age) {
  const size_t count = frontier_.size();
  work_.edges += static_cast<int64_t>(count);
  work_.spend(1 + static_cast<int64_t>(count));
  targets_.clear();
  for (const Stack base : frontier_) {
    const bool is_unknown = stacks_[base].state == grammar_.lr_states;
    if (is_unknown) deferred.push_back(deferred_reduction(nonterminal, 0));
    const int64_t state = grammar_.lr_of(stacks_[base].state);
    targets_.push_back(is_unknown ? -1 : grammar_.goto_state(state, nonterminal));
  }
  int64_t groups = 0;
  for (size_t first = 0; first < count; ++first) {
    const int64_t target = targets_[first];
    if (target < 0) continue;
    group_.clear();
    const size_t stop = ++groups <= kGroups ? count : first + 1;
    for (size_t i = first; i < stop; ++i) {
      if (targets_[i] != target) continue;
      targets_[i] = -1;
      group_.push_back(frontier_[i]);
    }
    level_.add(stacks_, grammar_.with_age(target, age), stacks_.unite_all(group_));
  }
}

// Shifts the terminal from every LR state of the level that can; returns the stacks.
Stack Parser::shift_level(int64_t terminal) {
  work_.spend(level_.size());
  sources_.clear();
  const auto target_of = [&](int64_t state) -> int64_t {
    const int64_t action = grammar_.action(grammar_.lr_of(state), terminal);
    const int64_t value = action >= 0 ? grammar_.columns.action_values[action] : -1;
    return value < grammar_.lr_states ? value : -1;
  };
  for (int64_t i = 0; i < level_.size(); ++i)
    if (target_of(level_[i].state) >= 0) sources_.push_back(pack(level_[i].state, i));
  std::ranges::sort(sources_);
  shifted_.clear();
  const auto run_of = [](std::span<const int64_t> from) {
    size_t length = 1;
    while (length < from.size() && high_half(from[length]) == high_half(from[0])) ++length;
    return from.first(length);
  };
  for (std::span<const int64_t> left = sources_; !left.empty();) {
    const auto run = run_of(left);
    left = left.subspan(run.size());
    const int64_t state = high_half(run[0]);
    shifted_.push_back(pack(target_of(state), stacks_.vertex(state, below_of(run))));
  }
  std::ranges::sort(shifted_);
  std::vector<Stack> tops;
  for (std::span<const int64_t> left = shifted_; !left.empty();) {
    const auto run = run_of(left);
    left = left.subspan(run.size());
    group_.clear();
    for (const int64_t source : run) group_.push_back(low_half(source));
    tops.push_back(stacks_.vertex(high_half(run[0]), stacks_.unite_all(group_)));
  }
  return tops.empty() ? kFail : stacks_.unite_all(tops);
}

// The union of the stacks below some edges.
Stack Parser::below_of(std::span<const int64_t> edges) {
  if (edges.size() == 1) return level_[low_half(edges[0])].below;
  group_.clear();
  for (const int64_t edge : edges) {
    const Stack below = level_[low_half(edge)].below;
    for (int64_t i = 0; i < stacks_.count(below); ++i)
      group_.push_back(stacks_.member(below, i));
  }
  return stacks_.unite_all(group_);
}

}  // namespace cdec::grammars
