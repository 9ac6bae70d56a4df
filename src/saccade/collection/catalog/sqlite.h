// A thin owner of SQLite's connection and statements: results as values, ends by themselves, nothing else.
// Values are always bound, never pasted into the text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "saccade/collection/catalog/filter.h"
#include "saccade/core/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace saccade {

// A prepared statement. Lives no longer than its database. One thread at a time.
class Statement {
 public:
  Statement(Statement&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), bound_(other.bound_) {}
  Statement& operator=(Statement&& other) noexcept;
  ~Statement();

  // Binds parameters in order, from the first. A failure comes out of the next step().
  Statement& bind(int64_t value);
  Statement& bind(double value);
  Statement& bind(std::string_view text);  // copied
  Statement& bind(const SqlValue& value);
  template <typename T>
  Statement& bind(const std::optional<T>& value) {  // NULL for nothing
    return value ? bind(*value) : bind_null();
  }
  Statement& bind_null();
  // Binds what a function of ours gets as a pointer of this type (https://www.sqlite.org/bindptr.html). Both live until
  // the next reset().
  Statement& bind_pointer(void* pointer, const char* type);

  // True: a row is there to read. False: done, and the statement is ready to be bound again.
  Result<bool> step();
  // Calls visit() for each row that is left, which reads its columns. A visit may return a Status; an error ends the loop.
  template <typename Visit>
  Status for_each(const Visit& visit) {
    for (;;) {
      SACCADE_ASSIGN(const bool row, step());
      if (!row) return {};
      if constexpr (std::is_void_v<decltype(visit())>) {
        visit();
      } else {
        SACCADE_TRY(visit());
      }
    }
  }
  // step() for statements that give no rows; kInternal if one comes.
  Status run();
  // Ready to be bound again, whatever is left unread.
  void reset();

  // Columns of the row that step() came to, from 0; numbers of other types as SQLite converts them.
  [[nodiscard]] int64_t integer(int column) const;
  [[nodiscard]] std::string text(int column) const;
  [[nodiscard]] double real(int column) const;
  [[nodiscard]] bool is_null(int column) const;
  [[nodiscard]] std::string_view blob(int column) const;  // valid until the next step()

 private:
  friend class Database;
  explicit Statement(sqlite3_stmt* handle) : handle_(handle) {}

  sqlite3_stmt* handle_ = nullptr;
  int bound_ = 0;
  int bind_error_ = 0;
};

// A statement that its database keeps; ready for its next use where this one ends.
class KeptStatement {
 public:
  explicit KeptStatement(Statement& statement) : statement_(&statement) {}
  KeptStatement(KeptStatement&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}
  KeptStatement& operator=(KeptStatement&&) = delete;
  ~KeptStatement() {
    if (statement_ != nullptr) statement_->reset();
  }
  Statement* operator->() const { return statement_; }
  Statement& operator*() const { return *statement_; }

 private:
  Statement* statement_;
};

// A connection. One thread at a time. Errors: kBadData (not a database, or a broken one), kIo (full disk, no
// permission, locked by another process for over five seconds), kUsage (a broken constraint), kInternal.
class Database {
 public:
  enum class Mode {
    kRead,    // of a file that is there; also in folders that cannot be written to
    kWrite,   // of a file that is there
    kCreate,  // made if missing
  };
  // Foreign files are not trusted: no extensions, no functions called by their schema, pages checked as read.
  static Result<Database> open(const std::filesystem::path& path, Mode mode);
  // An empty database that only this connection sees.
  static Result<Database> in_memory();
  Database(Database&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), kept_(std::move(other.kept_)) {}
  Database& operator=(Database&& other) noexcept;
  ~Database();

  // Statements without values and results: schema, pragmas, BEGIN.
  Status execute(const std::string& sql);
  Result<Statement> prepare(std::string_view sql);
  // Returns a statement that is prepared once and kept while the database is open, for frequent look-ups:
  // preparing one takes longer than running it. Must not be called while the statement of the same text is in
  // use.
  Result<KeptStatement> kept(std::string_view sql);
  // The first column of the first row; kBadData if there is no row.
  Result<int64_t> integer(std::string_view sql);
  Result<std::string> text(std::string_view sql);

  [[nodiscard]] int64_t last_id() const;  // of the row inserted last
  [[nodiscard]] int64_t changes() const;  // rows changed by the last statement

 private:
  explicit Database(sqlite3* handle) : handle_(handle) {}
  static Result<Database> open_as(const std::string& name, int flags, Mode mode);

  sqlite3* handle_ = nullptr;
  std::map<std::string, Statement, std::less<>> kept_;
};

// BEGIN IMMEDIATE until commit(); rolled back if that is not reached.
class Transaction {
 public:
  static Result<Transaction> begin(Database& database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Status commit();

 private:
  explicit Transaction(Database* database) : database_(database) {}
  Database* database_;
};

}  // namespace saccade
