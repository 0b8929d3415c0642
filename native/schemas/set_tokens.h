// Tokens that go on within members of sets: the vocabulary's trie and the members, together.
//
// States of the engine are made only where a token leaves a member, by a quote, or begins an escape:
// the many nodes between are pairs of a token's node and places in sets, and nothing is kept of them.
#pragma once

#include "differing.h"

namespace cdec::schemas {

class SetTokens {
 public:
  SetTokens(States& states, const cdec_token_trie& whole)
      : states_(states), p(states.p), whole_(whole), roots_(256, -1) {
    int32_t deepest = 0;
    for (int32_t node = 0; node < whole.depth.size; node = whole.skip[node])
      roots_[whole.node_byte[node]] = node;
    for (int64_t node = 0; node < whole.depth.size; ++node)
      deepest = std::max(deepest, whole.depth[node]);
    rows_ = deepest + 1;
  }

  // Whether a state is within members of sets alone, and not within an escape.
  bool reads(int32_t state) const {
    const Frame at = states_.frame(states_[state].frame);
    if (at.phase != Phase::kString || states_[state].lexical.is_escape()) return false;
    return std::ranges::all_of(at.items,
                               [&](const Item& item) { return p.sets.is_place(item.place); });
  }

  // Adds the tokens whose bytes are content as it is. `leave` is given each node whose byte is a
  // quote or a backslash, and the state before it, where that can lead on.
  template <class Leave>
  void walk(int32_t state, std::vector<int32_t>& found, Leave&& leave) {
    const Frame at = states_.frame(states_[state].frame);
    items_.assign(at.items.begin(), at.items.end());
    parent_ = at.parent;
    value_ = at.value;
    lexical_ = states_[state].lexical;
    width_ = items_.size();
    members_.clear();
    cursors_.resize(rows_ * width_);
    counts_.assign(rows_, 0);
    ByteSet next;
    for (size_t i = 0; i < width_; ++i) {
      const int32_t place = items_[i].place;
      members_.push_back(&p.sets.members(p.sets.set(place)));
      cursors_[i] = p.sets.cursor(place);
      next |= p.sets.bytes(place);
    }
    for (int32_t byte = 0x20; byte < 256; ++byte)
      if (next[byte] && roots_[byte] >= 0 && byte != '"' && byte != '\\')
        walk_node(roots_[byte], whole_.skip[roots_[byte]], found, leave);
    if (roots_['"'] >= 0 && is_member(0)) leave(roots_['"'], state);
    if (roots_['\\'] >= 0) leave(roots_['\\'], state);
  }

 private:
  template <class Leave>
  void walk_node(int32_t first, int32_t stop, std::vector<int32_t>& found, Leave& leave) {
    for (int32_t node = first; node < stop;) {
      const int32_t depth = whole_.depth[node], byte = whole_.node_byte[node];
      const bool leaves = byte == '"' || byte == '\\';
      if (leaves && (byte == '\\' || is_member(depth - 1))) leave(node, state_at(depth - 1));
      if (leaves || byte < 0x20 || !step(depth, byte)) {
        node = whole_.skip[node];
        continue;
      }
      for (int32_t i = whole_.token_offsets[node]; i < whole_.token_offsets[node + 1]; ++i)
        found.push_back(whole_.token_ids[i]);
      ++node;
    }
  }

  bool step(int32_t depth, int32_t byte) {
    bool leads_on = false;
    counts_[depth] = counts_[depth - 1] + ((byte & 0xC0) != 0x80);
    const Cursor *before = &cursors_[(depth - 1) * width_];
    Cursor *after = &cursors_[depth * width_];
    for (size_t i = 0; i < width_; ++i) {
      after[i] = before[i].is_dead() ? Cursor{} : members_[i]->after(before[i], byte);
      leads_on |= !after[i].is_dead();
    }
    return leads_on;
  }

  bool is_member(int32_t depth) const {
    for (size_t i = 0; i < width_; ++i) {
      const Cursor& at = cursors_[depth * width_ + i];
      if (at.is_dead() || count(depth, items_[i]) < p.string_min[items_[i].part]) continue;
      if (members_[i]->is_member(at)) return true;
    }
    return false;
  }

  // The characters of an alternative at a depth, as far as they matter; members have no maximum.
  int64_t count(int32_t depth, const Item& item) const {
    return std::min<int64_t>(item.content + counts_[depth], p.string_min[item.part]);
  }

  // The engine's state of the pair at a depth.
  int32_t state_at(int32_t depth) {
    states_.begin_frame(Phase::kString, parent_, kNone, value_);
    for (size_t i = 0; i < width_; ++i) {
      const Cursor& at = cursors_[depth * width_ + i];
      if (at.is_dead()) continue;
      Item item = items_[i];
      item.place = p.sets.place_of(p.sets.set(item.place), at);
      item.content = static_cast<int32_t>(count(depth, item));
      states_.add(item);
    }
    return states_.state_of(states_.end_frame(), lexical_);
  }

  States& states_;
  const Program& p;
  const cdec_token_trie& whole_;
  std::vector<int32_t> roots_;  // the vocabulary's node of each first byte, -1 for none
  size_t rows_ = 0, width_ = 0;
  // Of the walk under way: alternatives, their members, where they stand at each depth.
  std::vector<Item> items_;
  std::vector<const MemberSource*> members_;
  std::vector<Cursor> cursors_;
  std::vector<int32_t> counts_;  // characters that begin, by depth
  int32_t parent_ = -1, value_ = kNone;
  LexicalState lexical_;
};

}  // namespace cdec::schemas
