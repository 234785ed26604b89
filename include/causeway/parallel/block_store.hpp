// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_BLOCK_STORE_HPP
#define CAUSEWAY_PARALLEL_BLOCK_STORE_HPP

// Blocks of a model in a storage that all peers reach, one file for each block and step: whatever the layout was when they
// were written, any other can begin from them.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/io/checkpoint.hpp>
#include <causeway/io/section.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/parallel/block_moves.hpp>
#include <causeway/parallel/crew.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

/// Copies share the storage. The two newest steps of each block stay.
class block_store {
 public:
  block_store(io::any_storage storage, std::string folder) : storage_{std::move(storage)}, folder_{std::move(folder)} {}

  /// Durable on return.
  result<void> save(const crew_words& state, std::int64_t block, std::span<const float> contents) {
    std::vector<io::section> sections;
    sections.emplace_back("state", 1, std::as_bytes(std::span{&state, 1}));
    sections.emplace_back("block", 1, std::as_bytes(contents));
    return directory(block).save(state.step, sections, 0);
  }

  /// The newest state of which every block is there and whole; none: there is none. Reads what it finds.
  result<std::optional<crew_words>> newest(std::int64_t layers) {
    CAUSEWAY_ASSIGN(const auto steps, directory(0).steps());
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      std::optional<crew_words> first;
      bool whole = true;
      for (std::int64_t b = 0; whole && b < layers; ++b) {
        crew_words found;
        const auto file = directory(b).load(*step);
        whole = file && file->copy_to("state", std::span{&found, 1}) && found.step == *step && (!first || found == *first);
        first = found;
      }
      if (whole) return first;
    }
    return std::optional<crew_words>{};
  }

  /// A block of a state that `newest` found, into `contents`. errc::not_found: another state is stored for that step.
  result<void> load(const crew_words& state, std::int64_t block, std::span<float> contents) {
    CAUSEWAY_ASSIGN(const io::section_file file, directory(block).load(state.step));
    crew_words found;
    CAUSEWAY_TRY(file.copy_to("state", std::span{&found, 1}));
    if (!(found == state))
      return fail(errc::not_found, directory(block).directory(), "another state of this step is stored");
    return file.copy_to("block", contents);
  }

 private:
  [[nodiscard]] io::checkpoint_directory<io::any_storage> directory(std::int64_t block) const {
    return io::checkpoint_directory<io::any_storage>{storage_, folder_ + "/block-" + std::to_string(block), 2};
  }

  io::any_storage storage_;
  std::string folder_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_BLOCK_STORE_HPP
