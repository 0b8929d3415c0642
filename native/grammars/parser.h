// Shifting terminals: the deterministic LR parser, the generalised one, and the memo of both.
#pragma once

#include <optional>

#include "indents.h"

namespace cdec::grammars {

// The edges (LR state, stacks below) that reductions before one terminal lead to.
//
// The stacks below are one number: what reduces alike on a thousand stacks is one edge.
class Level {
 public:
  struct Edge {
    int32_t state;
    Stack below;
  };

  Level(int64_t lr_states, std::pmr::memory_resource *memory)
      : edges_(memory), seen_(kLeast, Seen{}, memory), sets_(lr_states + 2, 0, memory) {}

  // Begins another level, without edges.
  void begin() { ++stamp_, edges_.clear(); }
  int64_t size() const { return static_cast<int64_t>(edges_.size()); }
  Edge operator[](int64_t i) const { return edges_[i]; }
  void add(const Stacks &stacks, int64_t state, Stack below);

 private:
  static constexpr size_t kLeast = 256;
  // Sets of stacks below one LR state; then vertex by vertex.
  // subtle: so there are at most so many edges as LR states and vertices allow, not as subsets.
  static constexpr int64_t kSets = 8;

  struct Seen {
    int64_t key = 0, stamp = 0;
  };

  bool add_one(int64_t state, Stack below);
  Seen &place(int64_t key);
  void grow();

  std::pmr::vector<Edge> edges_;
  std::pmr::vector<Seen> seen_;     // a hash table; what another stamp wrote counts as free
  std::pmr::vector<int64_t> sets_;  // by LR state: stamp << 8 | sets of stacks below it
  int64_t stamp_ = 0;
};

// A level of a call that came back, and the edge to go on with.
struct PausedLevel {
  std::optional<Level> level;
  int64_t key = 0, at = 0;
  bool can_shift = false;
};

class Parser {
 public:
  Parser(const Grammar &grammar, Memory &memory, Stacks &stacks, Indents &indents, Work &work)
      : grammar_(grammar),
        stacks_(stacks),
        indents_(indents),
        work_(work),
        memory_(memory.memos),
        shifts_(&memory.memos, &stacks.journal),
        later_(&memory.memos, &stacks.journal),
        rooms_(&memory.memos, &stacks.journal),
        level_(grammar.lr_states, &memory.memos),
        pushed_(grammar.lr_states + 2) {}

  // The stack after a terminal, kFail if it cannot be shifted. O(1) if done before.
  Stack shift(Stack stack, int64_t terminal) {
    const int64_t known = shifts_.find(pack(stack, terminal));
    return known == Table::kAbsent || known == kShiftable ? compute(stack, terminal, true)
                                                          : static_cast<Stack>(known);
  }
  // Whether a terminal, or the end of the text, can be shifted. O(1) if done before.
  bool can_shift(Stack stack, int64_t terminal) {
    const int64_t known = shifts_.find(pack(stack, terminal));
    return (known == Table::kAbsent ? compute(stack, terminal, false) : known) != kFail;
  }
  // Whether some terminal of a live row can be shifted or is ignored.
  bool can_shift_any(Stack stack, int64_t row) {
    if (!grammar_.is_row(row)) return false;
    const int64_t known = shifts_.find(pack(stack, grammar_.terminals + 1 + row));
    return (known == Table::kAbsent ? compute_any(stack, row) : known) != kFail;
  }

  // -- where rules may have so many tokens

  static constexpr int32_t kFarOff = INT32_MAX / 4;
  // The stack behind a shifted terminal of an age, and so many tokens more than before it; kFail if no
  // rule on it may have so many.
  Stack grown(Stack shifted, int32_t more, int32_t age);
  // A stack without ages.
  Stack ageless(Stack stack) { return later(stack, -1); }
  // How many tokens more than enough are left for every rule that a stack has begun; kFarOff if any.
  int32_t room(Stack stack);

  // A reduction that popped into the unknown suffix of a partial stack: it goes on with its
  // nonterminal once `left` more LR states and the one below them are known.
  static int64_t deferred_reduction(int64_t nonterminal, int64_t left) {
    return pack(nonterminal, left);
  }
  std::vector<int64_t> deferred;
  // Shifts a terminal on a partial stack; what pops into the unknown suffix is deferred, nothing
  // noted.
  Stack shift_partial(Stack stack, int64_t terminal, bool builds);

  int64_t shift_count() const { return static_cast<int64_t>(shifts_.size()); }
  // Where a level of the call at hand stays if it has to come back.
  PausedLevel *paused = nullptr;

 private:
  static constexpr int64_t kCheckpointsAfter = 16, kMostCheckpoints = 1024;
  static constexpr int64_t kKeptAfter = 128;  // steps, or edges; what a trial made is kept then
  static constexpr int64_t kMostIdle = 1 << 17;
  // Stacks of a set that are shifted together; of fewer, each outcome is worth a note of its own.
  static constexpr int64_t kMany = 16;
  static constexpr int64_t kGroups = 8;  // gotos of one reduction that are looked for as sets

  Stack compute(Stack stack, int64_t terminal, bool builds);
  Stack compute_any(Stack stack, int64_t row);
  Stack shift_pair(Stack pair, int64_t terminal);
  Stack shift_top(Stack top, int64_t terminal, bool builds, bool is_partial);
  Stack shift_set(Stack stack, int64_t terminal, bool builds);
  Stack shift_single(Stack top, int64_t terminal, bool builds, bool is_partial);
  int64_t checkpoint(int64_t state, Stack below, int64_t terminal);
  Stack push(Stack base, int64_t count, int64_t target);

  Stack shift_general(Stack stack, int64_t terminal, bool builds, bool is_partial);
  int64_t begin_or_resume(Stack stack, int64_t key, bool &can_shift);
  void save_level(int64_t key, int64_t at, bool can_shift);
  bool reduce_edge(Level::Edge edge, int64_t terminal, bool builds);
  void reduce(int64_t rule, Level::Edge last);
  void pop(std::span<const Stack> tops, int64_t nonterminal, int64_t left);
  void add_gotos(int64_t nonterminal, int32_t age);
  Stack later(Stack stack, int32_t more);
  void put(int64_t state, Stack below, std::vector<Stack> &tops);
  void put_aged(int64_t lr_state, int64_t age, Stack below, std::vector<Stack> &tops);
  template <class IsKnown, class Note>
  void from_below(Stack stack, IsKnown &&is_known, Note &&note);
  Stack shift_level(int64_t terminal);
  Stack below_of(std::span<const int64_t> edges);

  const Grammar &grammar_;
  Stacks &stacks_;
  Indents &indents_;
  Work &work_;
  CountedMemory &memory_;
  Table shifts_;  // (stack, terminal), or (stack, terminals + 1 + live row) -> outcome
  Table later_;   // (stack, tokens more, -1 for no ages) -> stack
  Table rooms_;   // stack -> tokens
  Level level_;
  // LR states that reductions push on top of a stack: vertices only if the terminal is shifted.
  std::vector<int32_t> pushed_;
  std::vector<Stack> checkpoints_;
  std::vector<Stack> frontier_, next_, group_;
  std::vector<int64_t> targets_, sources_, shifted_;
};

// Work whose stacks and memos are forgotten at its end.
//
// Masks try hundreds of tokens' terminals on every stack that comes along; kept, they would be most of
// an engine's memory, and its growth most of the time that a new mask takes. What took long is kept
// after all, so that it is not done again at every position of a text, or at every call.
class Trial {
 public:
  Trial(Stacks &stacks, Work &work, PausedLevel *paused)
      : stacks_(stacks),
        work_(work),
        paused_(paused),
        vertices_(stacks.vertex_count()),
        sets_(stacks.set_count()) {
    work_.keeps = false;
    stacks_.journal.begin();
  }
  ~Trial() {
    if (work_.keeps || work_.is_paused()) {
      stacks_.journal.forget();
      return;
    }
    stacks_.journal.undo();
    paused_->level.reset();
    stacks_.shorten(vertices_, sets_);
  }
  Trial(const Trial &) = delete;

 private:
  Stacks &stacks_;
  Work &work_;
  PausedLevel *paused_;
  const int64_t vertices_, sets_;
};

}  // namespace cdec::grammars
