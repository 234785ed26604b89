// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_RUN_RECORDS_HPP
#define CAUSEWAY_EXAMPLES_RUN_RECORDS_HPP

// What a run has written down so far, read along while it goes on: the one source of the page, the report, the terminal
// view and the Prometheus text. Old steps and rounds are thinned out, so that it stays small however long a run is.

#include <causeway/formats/json.hpp>

#include <sys/types.h>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace app {

/// What the lines of one peer come to.
struct peer_figures {
  bool running = false;
  bool ended = false;        ///< trained to the end
  std::uint64_t starts = 0;  ///< of its process
  std::int64_t stage = -1;   ///< that it was told
  std::uint64_t step = 0;
  std::uint64_t round = 0;
  std::uint64_t rounds = 0;  ///< that it wrote down
  std::uint32_t peers = 0;   ///< in the last of them
  double loss = 0;
  double validation = 0;
  double tokens = 0;
  double tokens_per_second = 0;
  double compute_seconds = 0;
  double exchange_seconds = 0;
  double bytes_sent = 0;      ///< by all processes that this peer had
  double bytes_received = 0;  ///< likewise
  double warnings = 0;
  double last_said = 0;  ///< Unix time
  std::string id{};
};

/// What a peer of another machine has said of itself.
struct told_peer {
  std::string address{};
  std::uint64_t step = 0;
  std::uint64_t round = 0;
  double loss = 0;
  double tokens_per_second = 0;
  double bytes_sent = 0;
  double blocked_seconds = 0;
};

class run_records {
 public:
  /// Of the run in `folder`, which need not have begun.
  explicit run_records(std::string folder) : folder_{std::move(folder)} {}

  /// Takes in what came since the last time.
  void refresh();

  [[nodiscard]] const std::map<std::uint32_t, peer_figures>& peers() const noexcept { return peers_; }
  /// Those of other machines, by what peers call each other.
  [[nodiscard]] const std::map<std::string, told_peer>& others() const noexcept { return others_; }
  [[nodiscard]] const std::string& folder() const noexcept { return folder_; }
  /// What stopped, died or started, newest last: Unix time and a line of text.
  [[nodiscard]] const std::vector<std::pair<double, std::string>>& events() const noexcept { return events_; }
  [[nodiscard]] std::uint64_t deaths() const noexcept { return deaths_; }

  /// The run as one JSON object, with the records from number `since` on; all of them, if the numbers were others when
  /// `generation` was told. docs/reference/metrics.md has its members.
  [[nodiscard]] std::string state(std::uint64_t generation, std::uint64_t since) const;

 private:
  struct file {
    ino_t inode = 0;
    std::streamoff read = 0;
  };
  // Records that are thinned out together.
  struct group {
    std::size_t kept = 0;
    std::uint64_t seen = 0;
    std::uint64_t stride = 1;
  };
  using group_key = std::pair<std::int64_t, std::string>;  ///< peer and kind
  struct record {
    std::uint64_t number = 0;
    std::uint64_t in_group = 0;
    const group_key* key = nullptr;  ///< in groups_
    std::string text{};
  };

  void forget();
  bool read(const std::string& path, file& f);
  void take(std::string line);
  void fold(peer_figures& p, const std::string& kind, const causeway::formats::json_value& line);
  void hear(const causeway::formats::json_value& others);
  void note(double when, std::int64_t peer, const std::string& text);
  void thin(const group_key& key, group& g);

  std::string folder_;
  std::map<std::string, file> files_;
  std::vector<record> records_;
  std::map<group_key, group> groups_;
  std::map<std::uint32_t, peer_figures> peers_;
  std::map<std::string, told_peer> others_;
  std::map<std::uint32_t, std::pair<double, double>> before_;  ///< bytes sent and received by earlier processes of a peer
  std::vector<std::pair<double, std::string>> events_;
  std::uint64_t deaths_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t generation_ = 1;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_RUN_RECORDS_HPP
