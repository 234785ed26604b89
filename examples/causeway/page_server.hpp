// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_PAGE_SERVER_HPP
#define CAUSEWAY_EXAMPLES_PAGE_SERVER_HPP

// A run in a browser while it trains: GET only, at this machine's own address unless another is asked for. It reads what
// peers write into the run's folder, so any process beside it can serve it, and no training waits for it.

#include <causeway/core/result.hpp>

#include <memory>
#include <string>

namespace app {

/// What is wrong with a place to serve at, if anything is.
causeway::result<void> check_page_place(const std::string& where);

/// Serves in a thread of its own while it lives.
class page_server {
 public:
  /// `where`: PORT, or HOST:PORT; port 0: any that is free. Empty: nothing is served.
  static causeway::result<page_server> open(const std::string& where, const std::string& run_folder);

  page_server();
  page_server(page_server&&) noexcept;
  page_server& operator=(page_server&&) = delete;
  ~page_server();

  /// Where a browser finds it; empty: nowhere.
  [[nodiscard]] std::string url() const;

 private:
  class server;
  std::unique_ptr<server> server_;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_PAGE_SERVER_HPP
