// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_PEER_FOLDER_HPP
#define CAUSEWAY_EXAMPLES_PEER_FOLDER_HPP

// The folder of one peer of a run, `peer-N`: whoever has it is that peer. One process at a time; a lock that the kernel
// drops when the process dies says which.

#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>

#include <sys/types.h>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace app {

class peer_folder {
 public:
  /// Takes peer `index` of the run, or, where that is -1, the first one that no process has.
  static causeway::result<peer_folder> claim(const std::string& run, std::int64_t index);

  peer_folder(peer_folder&& other) noexcept;
  peer_folder& operator=(peer_folder&&) = delete;
  ~peer_folder();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }

  /// Where this peer listened last.
  [[nodiscard]] std::optional<std::string> address() const;
  /// Tells the others on this machine, and this peer's next process.
  causeway::result<void> set_address(const std::string& address);

 private:
  peer_folder(std::string run, std::uint32_t index, int lock);

  std::string path_;
  std::uint32_t index_;
  int lock_;
};

/// Why no process can be this peer: with these settings, text or build none could train. Its launcher says so instead of
/// starting it again.
[[nodiscard]] bool is_refusal(causeway::errc code);
causeway::result<void> note_refusal(const std::string& peer, const causeway::error& why);
[[nodiscard]] std::optional<causeway::error> read_refusal(const std::string& peer);
void forget_refusal(const std::string& peer);

/// What the other peers of a run on this machine have written down.
struct sibling {
  std::uint32_t index = 0;
  std::string address;   ///< where it listens, or listened last
  pid_t process = 0;     ///< that wrote the address
  bool running = false;  ///< some process has it
  bool known = false;    ///< it has a record of the membership
};

/// All peers that have a folder, by index.
std::vector<sibling> peers_on_disk(const std::string& run);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_PEER_FOLDER_HPP
