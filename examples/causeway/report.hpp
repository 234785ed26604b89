// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_REPORT_HPP
#define CAUSEWAY_EXAMPLES_REPORT_HPP

// What a person sees of a run in the terminal: a progress line, and a picture of the losses at the end.

#include <causeway/core/result.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "metrics.hpp"

namespace app {

/// One point of the progress line; what is unknown stays 0.
struct progress {
  std::uint64_t step = 0;
  std::uint64_t steps = 0;  ///< that each peer will have taken, where that is known
  std::uint64_t round = 0;
  double loss = 0;
  double validation = 0;
  double tokens_per_second = 0;   ///< over all peers
  std::uint64_t bytes_sent = 0;   ///< by this peer
  double bytes_saved_factor = 0;  ///< what every-step f32 averaging would have sent, over bytes_sent
  double seconds_left = 0;
  std::uint32_t peers = 0;  ///< that took part in the last round, where that changes
};

/// "12.3 MB" and the like.
std::string human_bytes(double bytes);
/// "1 round", "2 rounds".
std::string counted(std::uint64_t count, const std::string& what);
/// "2m10s" and the like.
std::string human_seconds(double seconds);
/// What part of its time a peer waited in exchanges.
std::string waiting_text(double blocked_seconds, double wall_seconds);

/// Writes the line: in place on a terminal, else one line in a while.
class progress_line {
 public:
  explicit progress_line(bool quiet);
  void show(const progress& p, bool milestone);
  void finish();

 private:
  bool quiet_;
  bool terminal_;
  bool open_ = false;
};

/// Writes a plot of training and validation loss over steps to `path`.
causeway::result<void> write_loss_plot(const std::string& path, const std::vector<std::string>& peer_folders,
                                       const std::string& title);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_REPORT_HPP
