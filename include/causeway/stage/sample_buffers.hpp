// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_SAMPLE_BUFFERS_HPP
#define CAUSEWAY_STAGE_SAMPLE_BUFFERS_HPP

// What the two sides of a boundary remember of each sample: bytes, changed by committed steps only. What a step makes of
// them waits beside the old ones. The outcome of a step does not depend on the order of its messages: of two about the same
// sample the one with the larger (seed, place in the message) counts, and of equal ones the later call.

#include <causeway/config/config.hpp>
#include <causeway/core/hash.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

struct sample_key {
  std::uint32_t edge = 0;
  std::uint64_t sample = 0;

  void serialize(auto& ar) { ar(edge, sample); }
  friend auto operator<=>(const sample_key&, const sample_key&) = default;
};

struct sample_buffer {
  std::vector<std::uint8_t> bytes;
  std::uint32_t tag = 0;  ///< a hash of the bytes, never 0: what two sides compare

  CAUSEWAY_DECL void seal() noexcept;
  void serialize(auto& ar) { ar(bytes, tag); }
};

class sample_buffers {
 public:
  /// The committed buffer, or null.
  CAUSEWAY_DECL [[nodiscard]] const sample_buffer* find(const sample_key& key) const;
  /// Whether a buffer is there or will be after the step.
  CAUSEWAY_DECL [[nodiscard]] bool knows(const sample_key& key) const;

  CAUSEWAY_DECL void stage(const sample_key& key, sample_buffer buffer, std::uint64_t seed, std::size_t place);
  CAUSEWAY_DECL void forget_staged();
  CAUSEWAY_DECL void commit();

  /// All of an edge.
  CAUSEWAY_DECL void forget(std::uint32_t edge);

  /// Committed: number of buffers, and their bytes. A step in progress keeps a second copy of those that it changes.
  [[nodiscard]] std::size_t size() const noexcept { return buffers_.size(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// What `bytes` will be if the step is committed now.
  [[nodiscard]] std::size_t bytes_after_step() const noexcept { return bytes_ + new_bytes_; }

  /// Committed ones only.
  void serialize(auto& ar) { ar(buffers_, bytes_); }

 private:
  struct change {
    sample_buffer buffer;
    std::uint64_t seed = 0;
    std::size_t place = 0;
  };

  std::map<sample_key, sample_buffer> buffers_;
  std::map<sample_key, change> staged_;
  std::uint64_t bytes_ = 0;      ///< of buffers_
  std::uint64_t new_bytes_ = 0;  ///< of those staged that are not in buffers_
};

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/sample_buffers.ipp>
#endif

#endif  // CAUSEWAY_STAGE_SAMPLE_BUFFERS_HPP
