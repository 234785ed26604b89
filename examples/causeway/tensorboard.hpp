// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_TENSORBOARD_HPP
#define CAUSEWAY_EXAMPLES_TENSORBOARD_HPP

// Event files as TensorBoard reads them: records of a length, its checksum, the bytes and theirs (TFRecord with masked
// CRC32C), each a protocol buffer `Event`. Only scalars are written.

#include <causeway/core/result.hpp>

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

namespace app {

/// The bytes of one record.
std::string tensorboard_record(std::string_view event);
/// The event that every file begins with.
std::string tensorboard_version(double unix_seconds);
/// A value called `tag`.
std::string tensorboard_scalar(double unix_seconds, std::uint64_t step, std::string_view tag, double value);

class tensorboard_file {
 public:
  /// A new file in `folder`, named as TensorBoard expects; each process of a peer has one.
  static causeway::result<tensorboard_file> open(const std::string& folder, double unix_seconds);

  void scalar(double unix_seconds, std::uint64_t step, std::string_view tag, double value) {
    file_ << tensorboard_record(tensorboard_scalar(unix_seconds, step, tag, value));
  }
  void flush() { file_.flush(); }

 private:
  std::ofstream file_;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_TENSORBOARD_HPP
