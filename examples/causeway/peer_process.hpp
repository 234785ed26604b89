// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_PEER_PROCESS_HPP
#define CAUSEWAY_EXAMPLES_PEER_PROCESS_HPP

// What a process has as a peer of an elastic run: a folder, a network (in a swarm two), a membership, and from them the
// place where its session trains. How it came to the run's settings is in elastic_run.cpp.

#include <causeway/core/result.hpp>
#include <causeway/io/file.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/net/asio_fabric.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/train/context.hpp>
#include <causeway/train/member.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "elastic_place.hpp"
#include "failpoint.hpp"
#include "journal.hpp"
#include "peer_folder.hpp"
#include "peer_report.hpp"
#include "peer_talk.hpp"
#include "session_input.hpp"
#include "stop.hpp"
#include "swarm_front.hpp"
#include "swarm_place.hpp"

namespace app {

/// One process as a peer, from its folder to the end of the run.
class peer_process {
 public:
  /// `door`: a connection to the run that is let go once this peer has its own.
  /// `assignments`: what it was told there of a swarm.
  peer_process(session_input in, peer_folder mine, std::shared_ptr<causeway::net::fabric> door,
               std::vector<swarm_assignment> assignments, stop_watch& watch);
  peer_process(const peer_process&) = delete;
  peer_process& operator=(const peer_process&) = delete;
  ~peer_process();

  /// The exit status. `may_found`: if nobody is known to be in the run, it begins here.
  causeway::result<int> run(bool may_found);

 private:
  [[nodiscard]] causeway::net::peer_id identity(const std::string& folder, std::uint64_t run_id) const;
  [[nodiscard]] std::shared_ptr<causeway::net::fabric> with_points(std::shared_ptr<causeway::net::fabric> tcp);
  [[nodiscard]] std::shared_ptr<causeway::net::fabric> announcing(std::shared_ptr<causeway::net::fabric> tcp) const;
  [[nodiscard]] std::shared_ptr<causeway::net::fabric> hearing(std::shared_ptr<causeway::net::fabric> tcp) const;
  [[nodiscard]] std::shared_ptr<causeway::net::fabric> watched(std::shared_ptr<causeway::net::fabric> over,
                                                               bool second) const;
  causeway::result<std::shared_ptr<causeway::net::asio_fabric>> open_public(causeway::net::listener at,
                                                                            causeway::net::peer_id id);
  causeway::result<void> open_fabric();
  causeway::result<void> open_swarm_fabrics();
  causeway::result<void> move_to(std::uint32_t stage);
  causeway::result<void> open_group(bool may_found);
  causeway::result<causeway::member_options> membership(bool may_found);
  void join_swarm(causeway::member_options& o);
  [[nodiscard]] causeway::environment surroundings() const;
  [[nodiscard]] causeway::net::fabric& door() const;
  void announce() const;

  session_input in_;
  peer_folder mine_;
  std::shared_ptr<causeway::net::fabric> door_;
  std::vector<swarm_assignment> assignments_;
  std::vector<std::string> reachable_;  ///< addresses at which others join, best first
  stop_watch& watch_;
  peer_report report_;
  failpoint points_{mine_.index()};
  peer_talk talk_;
  chosen_stage chosen_;
  std::shared_ptr<swarm_front> front_;
  std::optional<journal_file> journal_;
  elastic_place place_{.storage = causeway::io::any_storage{causeway::io::posix_storage{}}};
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_PEER_PROCESS_HPP
