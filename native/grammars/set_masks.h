// Masks of configurations where members of sets are terminals.
//
// What a grammar without sets allows is the automaton's mask. Beside it stand the tokens in which a
// member goes on, and those in which one begins behind other terminals: the vocabulary's trie and
// members of a set are walked together, and what stands behind a member is stepped. What a walk finds, and
// where in the vocabulary a terminal can end that a member may follow, is kept; only what depends on a
// stack is done again.
#pragma once

#include <array>

#include "masks.h"

namespace cdec::grammars {

class SetMasks {
 public:
  SetMasks(const Grammar &grammar, Memory &memory, const cdec_token_trie &tokens, Stacks &stacks,
           Parser &parser, Recogniser &recogniser, Masks &masks, Work &work)
      : grammar_(grammar),
        tokens_(tokens),
        stacks_(stacks),
        parser_(parser),
        recogniser_(recogniser),
        masks_(masks),
        work_(work),
        of_places_(&memory.memos),
        of_beginnings_(&memory.memos),
        walk_index_(&memory.memos),
        walked_(&memory.memos),
        place_index_(&memory.memos) {}

  // The mask of a set of configurations.
  int64_t of(std::span<const Configuration> configurations);

 private:
  // Tokens of the vocabulary's nodes from one on, up to another, within members of a set.
  struct Walk {
    int32_t set;
    Cursor cursor;  // before these nodes' bytes
    int32_t first, stop;
  };
  // What a walk finds: tokens within members, and nodes with more below at which one ends.
  using Found = std::pmr::vector<int32_t>;
  struct Walked {
    Found tokens, ends;
  };
  // A node at which a terminal ends that a member may follow, and the text of its path.
  struct Place {
    int32_t node;
    std::vector<uint8_t> text;
  };
  // Configurations behind a member, and by byte the list after them: -1 none, kUnknown.
  struct Rest {
    std::vector<Configuration> configurations;
    bool is_viable;
    std::array<int32_t, 256> after;
  };
  static constexpr int32_t kUnknown = -3;

  int64_t of_place(const Configuration &configuration);
  int64_t of_beginnings(const Configuration &configuration);
  void add_members(MaskStore::Row &row, const Walk &walk, const Configuration &behind);
  const Walked &walked(const Walk &walk);
  void walk_nodes(const Walk &walk, Walked &found);

  const std::vector<Place> &places_of(int64_t at);
  void find_places(int64_t at, std::vector<Place> &found);
  bool begins_below(int32_t node) const;
  ByteSet ends_before_members();
  void find_leading();
  void step_scanner(const std::vector<int32_t> &from, uint8_t byte, std::vector<int32_t> &after,
                    bool &may_begin);
  bool is_followed(int64_t terminal);

  int32_t rest_of(std::vector<Configuration> configurations);
  int32_t rest_after(int32_t rest, uint8_t byte);
  void add_rest(MaskStore::Row &row, int32_t rest, int32_t node);

  int32_t nodes() const { return static_cast<int32_t>(tokens_.depth.size); }
  void add_tokens_of(MaskStore::Row &row, int32_t node) const {
    for (int32_t i = tokens_.token_offsets[node]; i < tokens_.token_offsets[node + 1]; ++i)
      masks_.store.add_token(row, tokens_.token_ids[i]);
  }

  const Grammar &grammar_;
  const cdec_token_trie &tokens_;
  Stacks &stacks_;
  Parser &parser_;
  Recogniser &recogniser_;
  Masks &masks_;
  Work &work_;
  Table of_places_, of_beginnings_;  // (scanner state, stack) -> mask
  Table walk_index_;                 // (place, node) -> walk
  std::pmr::vector<Walked> walked_;
  Table place_index_;  // scanner state -> places
  std::vector<std::vector<Place>> places_;
  std::vector<int8_t> followed_;  // by terminal
  ByteSet begins_;                // bytes with which members begin
  std::vector<uint8_t> leads_;    // by node: whether a member may begin at or below it
  std::vector<Cursor> depths_;    // of the walk under way, by depth
  std::vector<Rest> rests_;       // of the row under way
};

}  // namespace cdec::grammars
