// Members of sets within schemas and grammars: texts that are walked byte by byte, whatever lists them.
//
// What lists them is a trie in a mapped file of any size, or the sorted rows of a document, and nothing
// that is compiled depends on it. States of it that a text meets are numbered as *places* behind the
// states of automata, so that an alternative stands in either.
#pragma once

#include <bitset>
#include <memory>
#include <memory_resource>
#include <vector>

#include "spans.h"
#include "table.h"
#include "trie.h"

namespace cdec {

// Where a text stands among members: a state of a trie, or a run of the rows of a document.
struct Cursor {
  int64_t at = CDEC_DEAD, stop = 0, depth = 0;
  bool is_dead() const { return at < 0; }
};

using ByteSet = std::bitset<256>;

// A list of texts.
class MemberSource {
 public:
  virtual ~MemberSource() = default;
  virtual Cursor root() const = 0;
  // The cursor after a byte; a dead one where no member goes on so.
  virtual Cursor after(const Cursor& before, int32_t byte) const = 0;
  virtual bool is_member(const Cursor& cursor) const = 0;
  // The next bytes of members; what a filter leaves out is left out.
  virtual ByteSet bytes(const Cursor& cursor) const = 0;
  // A number by which cursors are told apart; not negative.
  virtual int64_t state(const Cursor& cursor) const = 0;
  // The most bytes from anywhere within a member to where one ends, or more.
  virtual int64_t most_to_an_end() const = 0;
  // The next byte of a way to an end that is longer than the text so far; -1 where any byte is on one.
  virtual int32_t way(const Cursor&) const { return -1; }
};

// The members of a set: a trie over bytes, without tokens that end it.
class TrieSource final : public MemberSource {
 public:
  explicit TrieSource(const cdec_trie& trie) : trie_(trie) {}

  Cursor root() const override {
    return {trie_.degree.size > 0 && trie_.degree[0] == 0 ? kTail : 0};
  }
  Cursor after(const Cursor& before, int32_t byte) const override {
    return {stepped(trie_, before.at, span_of(trie_, before.at), byte)};
  }
  bool is_member(const Cursor& cursor) const override {
    return may_end(trie_, span_of(trie_, cursor.at));
  }
  ByteSet bytes(const Cursor& cursor) const override {
    ByteSet found;
    const Span span = span_of(trie_, cursor.at);
    for (int64_t at = span.first + (span.has_end && !span.in_tail); at < span.stop; ++at) {
      const int32_t byte = span.in_tail ? trie_.tokens[at] : trie_.token[at];
      if (byte >= 0 && byte < 256 && (span.in_tail || is_kept(trie_, at))) found.set(byte);
    }
    return found;
  }
  int64_t state(const Cursor& cursor) const override { return cursor.at; }
  int64_t most_to_an_end() const override {
    int64_t most = 0;
    for (int64_t row = 0; row + 1 < trie_.row_offsets.size; ++row)
      most = std::max(most, trie_.row_offsets[row + 1] - trie_.row_offsets[row]);
    return most;
  }

 private:
  const cdec_trie trie_;
};

// The pieces of a document.
class DocumentSource final : public MemberSource {
 public:
  explicit DocumentSource(const cdec_spans& spans) : spans_(spans), walk_(spans_) {}

  Cursor root() const override { return of(walk_.run(0)); }
  Cursor after(const Cursor& before, int32_t byte) const override {
    Run run = run_of(before);
    return walk_.narrow(run, static_cast<uint8_t>(byte)) ? of(run) : Cursor{};
  }
  bool is_member(const Cursor& cursor) const override { return walk_.may_end(run_of(cursor)); }
  ByteSet bytes(const Cursor& cursor) const override {
    ByteSet found;
    walk_.each_byte(run_of(cursor), [&](int byte, const Run&) { found.set(byte); });
    return found;
  }
  int64_t state(const Cursor& cursor) const override { return Spans::state(run_of(cursor)); }
  int64_t most_to_an_end() const override { return walk_.most_to_an_end(); }

 private:
  static Cursor of(const Run& run) { return {run.first, run.stop, run.depth}; }
  static Run run_of(const Cursor& cursor) { return {cursor.at, cursor.stop, cursor.depth}; }

  const cdec_spans spans_;
  const Spans walk_;
};

class MemberSets {
 public:
  MemberSets(int64_t automaton_states, std::pmr::memory_resource* memory)
      : first_(static_cast<int32_t>(automaton_states)), memory_(memory), places_(memory) {}

  // Adds the next set.
  void add(const cdec_trie& trie) { add(std::make_unique<TrieSource>(trie)); }
  void add(const cdec_spans& spans) { add(std::make_unique<DocumentSource>(spans)); }
  void add(std::unique_ptr<const MemberSource> members) {
    sets_.push_back({std::move(members), Table(memory_)});
  }

  int64_t size() const { return static_cast<int64_t>(sets_.size()); }
  const MemberSource& members(int64_t set) const { return *sets_[set].members; }

  bool is_place(int32_t place) const { return place >= first_; }
  bool holds(int64_t place) const {
    return place >= first_ && place - first_ < static_cast<int64_t>(places_.size());
  }
  int32_t set(int32_t place) const { return places_[place - first_].set; }
  const Cursor& cursor(int32_t place) const { return places_[place - first_].cursor; }
  int64_t state(int32_t place) const { return members_of(place).state(cursor(place)); }

  // The place before the first byte of a set's members; -1 where there is no such set.
  int32_t start(int64_t set) {
    if (set >= size()) return -1;
    return place_of(static_cast<int32_t>(set), members(set).root());
  }

  // The place after a byte, -1 where no member goes on so.
  int32_t step(int32_t place, int32_t byte) {
    const Cursor after = members_of(place).after(cursor(place), byte);
    return after.is_dead() ? -1 : place_of(set(place), after);
  }

  // Whether no byte of a member was read at a place.
  bool is_root(int32_t place) const {
    const MemberSource& members = members_of(place);
    return members.state(cursor(place)) == members.state(members.root());
  }
  bool is_member(int32_t place) const { return members_of(place).is_member(cursor(place)); }

  // The next bytes of members.
  ByteSet bytes(int32_t place) const { return members_of(place).bytes(cursor(place)); }

  // The next byte of a way to a longer member; -1 where any byte is on one.
  int32_t way(int32_t place) const { return members_of(place).way(cursor(place)); }

  // The most bytes from anywhere within a member of a place's set to where one ends, or more.
  int64_t most_to_an_end(int32_t place) {
    Set& set = sets_[this->set(place)];
    if (set.most_to_an_end < 0) set.most_to_an_end = set.members->most_to_an_end();
    return set.most_to_an_end;
  }

  // The number of a place among members.
  int32_t place_of(int32_t set, const Cursor& cursor) {
    Table& index = sets_[set].index;
    const int64_t state = members(set).state(cursor), known = index.find(state);
    if (known != Table::kAbsent) return static_cast<int32_t>(known);
    const auto place = static_cast<int32_t>(first_ + static_cast<int64_t>(places_.size()));
    places_.push_back({set, cursor});
    index.set(state, place);
    return place;
  }

 private:
  struct Set {
    std::unique_ptr<const MemberSource> members;
    Table index;  // state -> place
    int64_t most_to_an_end = -1;  // where that was asked for
  };
  struct Place {
    int32_t set;
    Cursor cursor;
  };

  const MemberSource& members_of(int32_t place) const { return members(set(place)); }

  const int32_t first_;
  std::pmr::memory_resource* memory_;
  std::vector<Set> sets_;
  std::pmr::vector<Place> places_;
};

}  // namespace cdec
