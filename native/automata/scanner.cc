// Subset construction over the automata of terminals that compete, byte by byte.
#include "cdec_native.h"
#include "construction.h"
#include "guarded.h"

namespace {

// A state of a terminal, and whether the terminal competes or is followed only to know whether a
// text is a keyword.
class Code {
 public:
  explicit Code(int32_t packed) : packed_(packed) {}
  int32_t packed() const { return packed_; }
  int32_t state() const { return packed_ >> 1; }
  bool competes() const { return !(packed_ & 1); }
  Code beaten() const { return Code(packed_ | 1); }
  Code moved(int32_t state) const { return Code(state << 1 | (packed_ & 1)); }

 private:
  int32_t packed_;
};

class Scanner : public cdec::Subsets {
 public:
  Scanner(const cdec_terminals &terminals, cdec_i64 offsets, cdec_i32 starts)
      : Subsets(terminals.classes), terminals_(terminals), after_(terminals.classes),
        competing_(terminals.keyword_offsets.size) {
    for (int64_t i = 0; i + 1 < offsets.size; ++i)
      lists.intern({starts.at + offsets[i], starts.at + offsets[i + 1]});
  }

 private:
  void follow(cdec::List state) override {
    for (const int32_t packed : state) {
      const Code code(packed);
      const int64_t end = terminals_.offsets[code.state() + 1];
      for (int64_t at = terminals_.offsets[code.state()]; at < end; ++at)
        after_[terminals_.kinds[at]].push_back(code.moved(terminals_.targets[at]).packed());
    }
    for (int64_t kind = 0; kind < width; ++kind) {
      auto &codes = after_[kind];
      if (terminals_.competing && !codes.empty()) compete(codes);
      if (!codes.empty()) lead(kind, codes);
      codes.clear();
    }
  }

  // Cuts what loses: the first terminal that completes here beats all behind it for good, as in one
  // large alternation. A keyword is followed while an expression that becomes it competes.
  void compete(std::vector<int32_t> &codes) {
    bool is_won = false;
    ++stamp_;
    for (int32_t &packed : codes) {
      const Code code(packed);
      if (!code.competes()) continue;
      if (is_won) {
        packed = code.beaten().packed();
        continue;
      }
      competing_[terminals_.owners[code.state()]] = stamp_;
      is_won = terminals_.accepts[code.state()];
    }
    std::erase_if(codes, [&](int32_t packed) {
      return !Code(packed).competes() && !may_become(terminals_.owners[Code(packed).state()]);
    });
  }

  bool may_become(int32_t keyword) const {
    const int64_t end = terminals_.keyword_offsets[keyword + 1];
    for (int64_t at = terminals_.keyword_offsets[keyword]; at < end; ++at)
      if (competing_[terminals_.expressions[at]] == stamp_) return true;
    return false;
  }

  const cdec_terminals &terminals_;
  std::vector<std::vector<int32_t>> after_; // codes by class of bytes
  std::vector<int64_t> competing_;          // by terminal, stamps
  int64_t stamp_ = 0;
};

}  // namespace

extern "C" cdec_construction *cdec_determinise_terminals(const cdec_terminals *terminals,
                                                         cdec_i64 offsets, cdec_i32 starts) {
  return cdec::made<Scanner>(*terminals, offsets, starts);
}
