// Ages of what stands on stacks, as rules that may have so many tokens ask for them.
#include "parser.h"

namespace cdec::grammars {

// Notes something of a stack after it was noted of all stacks below; deep stacks need no recursion.
template <class IsKnown, class Note>
void Parser::from_below(Stack stack, IsKnown &&is_known, Note &&note) {
  std::vector<Stack> open{stack};
  while (!open.empty()) {
    const Stack here = open.back();
    const size_t before = open.size();
    for (int64_t i = 0; !is_known(here) && i < stacks_.count(here); ++i)
      if (const Stack below = stacks_[stacks_.member(here, i)].below; !is_known(below))
        open.push_back(below);
    if (open.size() > before) continue;
    if (!is_known(here)) note(here);
    work_.spend(1);
    open.pop_back();
  }
}

// The stack so many tokens later, kFail if that is too many; or without ages.
Stack Parser::later(Stack stack, int32_t more) {
  if (more == 0) return stack;
  const auto known = [&](Stack each) {
    return each == kNone ? int64_t{kNone} : later_.find(pack(each, more));
  };
  from_below(stack, [&](Stack each) { return known(each) != Table::kAbsent; }, [&](Stack each) {
    std::vector<Stack> tops;
    for (int64_t i = 0; i < stacks_.count(each); ++i) {
      const auto [state, below, mark] = stacks_[stacks_.member(each, i)];
      const int64_t lr_state = grammar_.lr_of(state), age = grammar_.age_of(state);
      const auto under = static_cast<Stack>(known(below));
      if (more < 0 || age == 0)
        put(lr_state, under, tops);
      else
        put_aged(lr_state, age + more, under, tops);
    }
    later_.set(pack(each, more), stacks_.unite_all(tops));
  });
  return static_cast<Stack>(known(stack));
}

Stack Parser::grown(Stack shifted, int32_t more, int32_t age) {
  std::vector<Stack> tops;
  for (int64_t i = 0; i < stacks_.count(shifted); ++i) {
    const auto [state, below, mark] = stacks_[stacks_.member(shifted, i)];
    put_aged(grammar_.lr_of(state), age, later(below, more), tops);
  }
  return stacks_.unite_all(tops);
}

// Adds a vertex, unless nothing is left below it.
void Parser::put(int64_t state, Stack below, std::vector<Stack> &tops) {
  if (below != kFail) tops.push_back(stacks_.vertex(state, below));
}

// The same of one that has an age, unless every rule that has begun so has too many tokens.
void Parser::put_aged(int64_t lr_state, int64_t age, Stack below, std::vector<Stack> &tops) {
  const int64_t state = grammar_.with_age(lr_state, age);
  if (state == lr_state || age <= grammar_.state_most[lr_state]) put(state, below, tops);
}

int32_t Parser::room(Stack stack) {
  const auto known = [&](Stack each) { return each == kNone ? kFarOff : rooms_.find(each); };
  from_below(stack, [&](Stack each) { return known(each) != Table::kAbsent; }, [&](Stack each) {
    int64_t least = kFarOff;
    for (int64_t i = 0; i < stacks_.count(each); ++i) {
      const auto [state, below, mark] = stacks_[stacks_.member(each, i)];
      const int32_t age = grammar_.age_of(state);
      if (age > 0) least = std::min<int64_t>(least, grammar_.least_tokens(grammar_.lr_of(state)) - age);
      least = std::min(least, known(below));
    }
    rooms_.set(each, least);
  });
  return static_cast<int32_t>(known(stack));
}

}  // namespace cdec::grammars
