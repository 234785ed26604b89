// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_SHARD_BUILDER_HPP
#define CAUSEWAY_DATA_SHARD_BUILDER_HPP

// A token shard out of tokens that come bit by bit, nobody knows how many: they wait on disk, in a file beside the shard,
// so that memory does not limit what can be written. The shard appears whole, when it is finished, or not at all.

#include <causeway/core/result.hpp>
#include <causeway/data/token_shard.hpp>
#include <causeway/io/file.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

/// Not safe to share between threads.
class shard_builder {
 public:
  /// The folder of `path` must be there. Needs as much room beside the shard as the shard itself.
  CAUSEWAY_DECL static result<shard_builder> make(const std::string& path, token_width width);

  shard_builder(shard_builder&& other) noexcept;
  shard_builder& operator=(shard_builder&&) = delete;
  /// Removes what was not finished.
  ~shard_builder();

  /// Appends. errc::invalid_argument: a token that the width does not hold.
  CAUSEWAY_DECL result<void> add(std::span<const std::int32_t> tokens);

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }

  /// Writes the shard under its name. Nothing can be added after that.
  CAUSEWAY_DECL result<void> finish();

 private:
  CAUSEWAY_DECL shard_builder(std::string path, std::string waiting, token_width width,
                              io::posix_file_system::file_type file);

  std::string path_;
  std::string waiting_;  // where tokens wait; empty: nothing is left to remove
  token_width width_;
  std::optional<io::posix_file_system::file_type> file_;
  std::int64_t size_ = 0;
  std::vector<std::uint16_t> narrow_;
  std::vector<std::uint32_t> wide_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::data

#ifndef CAUSEWAY_COMPILED
#include <causeway/data/impl/shard_builder.ipp>
#endif

#endif  // CAUSEWAY_DATA_SHARD_BUILDER_HPP
