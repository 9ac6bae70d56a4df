import { render } from "preact";
import { App } from "./app";
import { Docs } from "./docs";
import "./style.css";

render(location.pathname === "/docs" ? <Docs /> : <App />, document.getElementById("app")!);
