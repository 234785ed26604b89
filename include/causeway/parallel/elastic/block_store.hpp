// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_BLOCK_STORE_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_BLOCK_STORE_HPP

// Blocks of a model in a storage, one file for each block and step: whatever the layout was when they were written, any
// other can begin from them. Machines may share the storage or have one each: then each has the blocks of its own peers,
// and what counts is what all of them have together.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/io/checkpoint.hpp>
#include <causeway/io/section_file.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/parallel/elastic/step_group.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// A state of a run, and which of its blocks a peer finds saved. The same bytes on all peers: they send it to each other.
struct saved_blocks {
  static constexpr std::int64_t most = 1024;  ///< blocks of a model that can go back

  step_record state{};  ///< step 0: none
  std::array<std::uint64_t, most / 64> found{};

  void add(std::int64_t block) noexcept { found[static_cast<std::size_t>(block / 64)] |= std::uint64_t{1} << block % 64; }
  [[nodiscard]] bool has(std::int64_t block) const noexcept {
    return block < most && (found[static_cast<std::size_t>(block / 64)] >> block % 64 & 1U) != 0;
  }
};
/// The newest states of which a peer finds blocks, newest first.
using saved_states = std::array<saved_blocks, 4>;

/// The newest state of which the peers have every block between them; none: there is none.
CAUSEWAY_DECL [[nodiscard]] std::optional<step_record> newest_together(std::span<const saved_states> peers,
                                                                       std::int64_t layers);
/// Those of one state; none where it is not among them.
CAUSEWAY_DECL [[nodiscard]] saved_blocks blocks_of(const saved_states& all, const step_record& state);

/// Copies share the storage. The two newest steps of each block stay.
class block_store {
 public:
  CAUSEWAY_DECL block_store(io::any_storage storage, std::string folder);

  /// Durable on return.
  CAUSEWAY_DECL result<void> save(const step_record& state, std::int64_t block, std::span<const float> contents);

  /// A number that all peers find that reach this storage, and no others; made by whoever asks first. Ask again before it
  /// is used: two may have asked first.
  CAUSEWAY_DECL result<std::uint64_t> identity(std::uint64_t fresh);

  /// What is there and whole of the newest states. Reads what it finds.
  CAUSEWAY_DECL result<saved_states> found(std::int64_t layers);

  /// The newest state of which every block is there and whole; none: there is none. Reads what it finds.
  CAUSEWAY_DECL result<std::optional<step_record>> newest(std::int64_t layers);

  /// A block of a state that `newest` found, into `contents`. errc::not_found: another state is stored for that step.
  CAUSEWAY_DECL result<void> load(const step_record& state, std::int64_t block, std::span<float> contents);
  /// However long it is: parameters come first.
  CAUSEWAY_DECL result<std::vector<float>> load(const step_record& state, std::int64_t block);

 private:
  CAUSEWAY_DECL [[nodiscard]] io::checkpoint_directory<io::any_storage> directory(std::int64_t block) const;

  io::any_storage storage_;
  std::string folder_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/block_store.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_BLOCK_STORE_HPP
